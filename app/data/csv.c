/* Tables in text: one sample a line, numbers between commas, semicolons, tabs or spaces, the label last. A first line
 * in which no cell is a number is a heading. */
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

static const char blank[] = " \t\r";

typedef struct cell {
    const char *start;
    int length; /* without blanks around it */
    double value;
    bool is_number;
} cell;

/* The cell at *at, which moves to the next one; the separator is that of the line, ' ' for any blanks. */
static cell next_cell(char **at, char separator)
{
    char ends[] = {separator, 0}, *start = *at + strspn(*at, blank), *end;
    char *stop = start + strcspn(start, separator == ' ' ? blank : ends), *last = stop;
    while (last > start && strchr(blank, last[-1])) last--;
    *at = stop + (*stop == separator);
    *at += strspn(*at, blank);
    double value = psgd__to_number(start, &end);
    int length = (int)(last - start < 1000 ? last - start : 1000);
    return (cell){start, length, value, end == last && last > start};
}

typedef struct line_count {
    int64_t cells, numbers;
    int64_t bad; /* the first cell that is not a finite number in f32, from 1; 0: none */
    cell wrong;  /* that cell */
} line_count;

static char separator_of(const char *line)
{
    return strchr(line, ',') ? ',' : strchr(line, ';') ? ';' : ' ';
}

/* The numbers of one line, NUL-terminated, into row; NULL: they are only counted. */
static line_count read_line(char *line, float *row)
{
    line_count found = {0};
    char separator = separator_of(line);
    for (char *at = line; *at;) {
        cell one = next_cell(&at, separator);
        bool good = one.is_number && fabs(one.value) <= (double)FLT_MAX;
        if (row && good) row[found.cells] = (float)one.value;
        found.cells++;
        found.numbers += one.is_number;
        if (good || found.bad) continue;
        found.bad = found.cells;
        found.wrong = one;
    }
    return found;
}

static psgd_status refuse_cell(const csv *self, int64_t number, const line_count *found)
{
    const char *what = found->wrong.is_number ? "is not finite in f32" : "is not a number";
    const char *labels = found->bad == found->cells ? "; labels are numbers, 0, 1, 2, ... for classes" : "";
    if (found->wrong.length == 0) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s: line %lld, column %lld is empty", self->path, (long long)number,
                          (long long)found->bad);
    }
    return psgd__fail(PSGD_ERR_FORMAT, "%s: line %lld, column %lld: '%.*s' %s%s", self->path, (long long)number,
                      (long long)found->bad, found->wrong.length < 40 ? found->wrong.length : 40, found->wrong.start,
                      what, labels);
}

static psgd_status add_row(const psgd_context *context, csv *self, char *line, int64_t number)
{
    line_count found = read_line(line, NULL);
    int64_t count = found.cells;
    if (number == 1 && found.numbers == 0) return PSGD_OK; /* a heading */
    if (strchr(line, ',') && strchr(line, ';')) {
        return psgd__fail(
            PSGD_ERR_FORMAT,
            "%s: line %lld has both ',' and ';'; fields are separated by commas and decimals have a point", self->path,
            (long long)number);
    }
    if (found.bad) return refuse_cell(self, number, &found);
    if (count == 0) return PSGD_OK;
    if (self->rows == 0) self->columns = count;
    if (count != self->columns || count < 2) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s: line %lld has %lld values; expected %lld, label included", self->path,
                          (long long)number, (long long)count, (long long)(self->rows ? self->columns : 2));
    }
    if (!psgd__grow(context, &self->values, (self->rows + 1) * count, &self->room, sizeof *self->values))
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the values of %s", self->path);
    read_line(line, self->values + self->rows * count);
    self->rows++;
    return PSGD_OK;
}

static psgd_status parse(const psgd_context *context, csv *self, char *chars, int64_t count)
{
    int64_t number = 1;
    bool marked = count >= 3 && !memcmp(chars, "\xEF\xBB\xBF", 3); /* as UTF-8, by a spreadsheet */
    for (char *line = chars + (marked ? 3 : 0), *end = chars + count; line < end; number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        if (memchr(line, 0, (size_t)(stop - line))) {
            return psgd__fail(PSGD_ERR_FORMAT, "%s is not text: line %lld has a zero byte", self->path,
                              (long long)number);
        }
        *stop = 0;
        PSGD_TRY(add_row(context, self, line + strspn(line, blank), number));
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
    .summary = "a table of numbers in text, plain or .gz: a sample a line, its label last",
    .open = csv_open,
};
