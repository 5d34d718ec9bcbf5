/* Tables in text: one sample a line, numbers between commas, semicolons, tabs or spaces, the label last. A first line
 * that is not numbers is taken for a heading. */
#include "data/format/gzip.h"
#include "data/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct csv {
    const char *path;
    float *values; /* rows one after the other */
    int64_t rows, columns, room;
} csv;

/* The numbers of one line, NUL-terminated, into row: how many, or -1 where something is not a number. */
static int64_t read_line(char *line, float *row, int64_t max)
{
    int64_t count = 0;
    for (char *at = line; *at;) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || !isfinite(value)) return -1;
        if (row && count < max) row[count] = (float)value;
        count++;
        end += strspn(end, " \t\r");
        if (*end && !strchr(",;", *end) && end[-1] != ' ' && end[-1] != '\t') return -1;
        at = end + (*end == ',' || *end == ';');
        at += strspn(at, " \t\r");
    }
    return count;
}

static psgd_status add_row(const psgd_context *context, csv *self, char *line, int64_t number)
{
    int64_t count = read_line(line, NULL, 0);
    if (count < 0 && self->rows == 0 && number == 1) return PSGD_OK;
    if (count < 0)
        return psgd__fail(PSGD_ERR_FORMAT, "%s: line %lld has something that is not a finite number", self->path,
                          (long long)number);
    if (count == 0) return PSGD_OK;
    if (self->rows == 0) self->columns = count;
    if (count != self->columns || count < 2) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s: line %lld has %lld values; expected %lld, label included", self->path,
                          (long long)number, (long long)count, (long long)(self->rows ? self->columns : 2));
    }
    if ((self->rows + 1) * count > self->room) {
        int64_t room = 2 * (self->rows + 1) * count + 1024;
        float *grown = psgd__alloc(context, room, sizeof *grown);
        if (!grown) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the values of %s", self->path);
        if (self->values) memcpy(grown, self->values, (size_t)(self->rows * count) * sizeof *grown);
        psgd__free(context, self->values);
        self->values = grown;
        self->room = room;
    }
    read_line(line, self->values + self->rows * count, count);
    self->rows++;
    return PSGD_OK;
}

static psgd_status parse(const psgd_context *context, csv *self, char *chars, int64_t count)
{
    int64_t number = 1;
    for (char *line = chars, *end = chars + count; line < end; number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        if (memchr(line, 0, (size_t)(stop - line))) {
            return psgd__fail(PSGD_ERR_FORMAT, "%s is not text: line %lld has a zero byte", self->path,
                              (long long)number);
        }
        *stop = 0;
        PSGD_TRY(add_row(context, self, line + strspn(line, " \t\r"), number));
        line = stop + 1;
    }
    if (self->rows > 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_FORMAT, "%s has no line of values", self->path);
}

static psgd_status csv_open(const psgd_context *context, const char *argument, source_split split,
                            const source_settings *settings, source **opened)
{
    unsigned char *bytes;
    int64_t count;
    csv self = {.path = argument};
    PSGD_TRY(psgd__file_read(context, argument, &bytes, &count));
    /* The reader leaves room for the zero byte after a last line without an end. */
    psgd_status status = parse(context, &self, (char *)bytes, count);
    psgd__free(context, bytes);
    int64_t features = self.columns - 1;
    float *x = NULL, *y = NULL;
    if (status == PSGD_OK) {
        x = psgd__alloc(context, self.rows * features, sizeof *x);
        y = psgd__alloc(context, self.rows, sizeof *y);
        if (!x || !y) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the values of %s", argument);
    }
    for (int64_t i = 0; status == PSGD_OK && i < self.rows; i++) {
        memcpy(x + i * features, self.values + i * self.columns, (size_t)features * sizeof *x);
        y[i] = self.values[i * self.columns + features];
    }
    psgd__free(context, self.values);
    if (status == PSGD_OK) {
        return psgd__table_open(context, argument, 1, &features, self.rows, x, y, split, settings, opened);
    }
    psgd__free(context, x);
    psgd__free(context, y);
    return status;
}

const source_kind psgd__source_csv = {
    .name = "csv",
    .argument = "FILE",
    .summary = "a table in text, plain or .gz: a sample a line, its label last",
    .open = csv_open,
};
