/* Tables in text: one sample a line, numbers between commas, semicolons, tabs or spaces, the label last. A first line
 * with a word in it is taken for a heading. */
#include "core/text.h"
#include "data/format/gzip.h"
#include "data/samples_table.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct csv {
    const char *path;
    float *values; /* rows one after the other */
    int64_t rows, columns, room;
} csv;

enum { NOT_A_NUMBER = -1, NOT_FINITE = -2 };

/* The numbers of one line, NUL-terminated, into row: how many, or what is wrong with them. */
static int64_t read_line(char *line, float *row, int64_t max)
{
    int64_t count = 0;
    for (char *at = line; *at;) {
        char *end;
        double value = psgd__to_number(at, &end);
        if (end == at) return NOT_A_NUMBER;
        end += strspn(end, " \t\r");
        if (*end && !strchr(",;", *end) && end[-1] != ' ' && end[-1] != '\t') return NOT_A_NUMBER;
        if (!(fabs(value) <= (double)FLT_MAX)) return NOT_FINITE;
        if (row && count < max) row[count] = (float)value;
        count++;
        at = end + (*end == ',' || *end == ';');
        at += strspn(at, " \t\r");
    }
    return count;
}

static psgd_status add_row(const psgd_context *context, csv *self, char *line, int64_t number)
{
    int64_t count = read_line(line, NULL, 0);
    if (count == NOT_A_NUMBER && self->rows == 0 && number == 1) return PSGD_OK;
    if (count < 0)
        return psgd__fail(PSGD_ERR_FORMAT, "%s: line %lld has something that is not a finite number in f32", self->path,
                          (long long)number);
    if (count == 0) return PSGD_OK;
    if (self->rows == 0) self->columns = count;
    if (count != self->columns || count < 2) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s: line %lld has %lld values; expected %lld, label included", self->path,
                          (long long)number, (long long)count, (long long)(self->rows ? self->columns : 2));
    }
    if (!psgd__grow(context, &self->values, (self->rows + 1) * count, &self->room, sizeof *self->values))
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the values of %s", self->path);
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

static psgd_status csv_open(const source_request *request, source **opened)
{
    const psgd_context *context = request->context;
    unsigned char *bytes;
    int64_t count;
    csv self = {.path = request->argument};
    PSGD_TRY(psgd__file_read(context, self.path, &bytes, &count));
    psgd_status status = parse(context, &self, (char *)bytes, count);
    psgd__free(context, bytes);
    float *y = status == PSGD_OK ? psgd__alloc(context, self.rows, sizeof *y) : NULL;
    if (status == PSGD_OK && !y) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the values of %s", self.path);
    if (status != PSGD_OK) {
        psgd__free(context, self.values);
        return status;
    }
    int64_t features = self.columns - 1;
    for (int64_t i = 0; i < self.rows; i++) { /* the features move together, and the labels out */
        const float *row = self.values + i * self.columns;
        y[i] = row[features];
        memmove(self.values + i * features, row, (size_t)features * sizeof *row);
    }
    return psgd__samples_open(request, SAMPLES_FLOAT, 1, &features, self.rows, self.values, y, opened);
}

const source_kind psgd__source_csv = {
    .name = "csv",
    .argument = "FILE",
    .summary = "a table in text, plain or .gz: a sample a line, its label last",
    .open = csv_open,
};
