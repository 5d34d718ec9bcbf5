/* Panels: a few long columns, n x r with column j at P + j * n, as low-rank families have them.
 *
 * la_sweep goes over n rows in chunks that stay in the cache, several threads at a time, and adds up what each chunk
 * finds. The rows are split by n alone and sums are combined in order, so results do not depend on the threads. */
#ifndef PSGD_LA_ARRAY_COLUMNS_H
#define PSGD_LA_ARRAY_COLUMNS_H

#include "la/view.h"

#define la_sweep       PSGD_TYPED(psgd__la_sweep)
#define la_sweep_max   PSGD_TYPED(psgd__la_sweep_max)
#define la_chunk       PSGD_TYPED(la_chunk)
#define la_chunk_visit PSGD_TYPED(la_chunk_visit)
#define la_panel_dots  PSGD_TYPED(psgd__la_panel_dots)
#define la_panel_add   PSGD_TYPED(psgd__la_panel_add)

enum { LA_CHUNK = 2048, LA_PARTS = 64 };

/* Rows from .. from + count - 1. */
typedef struct la_chunk {
    int64_t from, count;
    double *sums; /* add to these */
    double *max;  /* raise these */
} la_chunk;

typedef void (*la_chunk_visit)(void *data, const la_chunk *rows);

/* sums has room for LA_PARTS * (sum_count + max_count) values; the results are the first sum_count, then max_count. */
void la_sweep(int64_t n, la_chunk_visit visit, void *data, int64_t sum_count, int64_t max_count, double *sums);

static inline int64_t la_sweep_room(int64_t sum_count, int64_t max_count)
{
    return LA_PARTS * (sum_count + max_count);
}

/* max <- x where that is larger; a NaN is larger than anything. */
static inline void la_raise(double *max, double x)
{
    if (!(x <= *max) && *max == *max) *max = x;
}

/* max <- two maxima over n elements, longer chunks at a time. */
void la_sweep_max(int64_t n, la_chunk_visit visit, void *data, double max[2]);

/* Within one chunk, x its first row: sums_j += P_j'x over its rows; x += sum_j c_j P_j. */
void la_panel_dots(const real *P, int64_t n, int64_t r, const la_chunk *rows, const real *x, double *sums);
void la_panel_add(const real *P, int64_t n, int64_t r, const la_chunk *rows, const double *c, real *x);

#endif
