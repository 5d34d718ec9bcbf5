#include "la/array/vectors.h"
#include "la/array/dispatch.h"
#include "la/la.h"
#include "la/pool.h"

enum {
    TILE = 1 << 12,  /* elements of y that stay in the first-level cache while the vectors pass */
    SHORT = 16,      /* elements below which the call of a kernel costs more than its work */
    ALONE = 1 << 15, /* elements below which one thread is faster */
    PARTS = 64       /* partial sums, each over its own stretch, added in order */
};

typedef struct job {
    int count;
    int64_t n, each;
    const real *const *x;
    const real *y;
    real *to;
    const double *c;
    double *sum; /* [PARTS][count] */
} job;

static void dot_stretch(const job *j, int64_t from, int64_t end, double *sum)
{
    const la_kernels *k = la_kernel();
    for (int64_t at = from; at < end; at += TILE) {
        int64_t size = smaller(TILE, end - at);
        for (int i = 0; i < j->count; i++) sum[i] += k->dot(size, j->x[i] + at, j->y + at);
    }
}

static void dot_part(void *data, int64_t part)
{
    const job *j = data;
    int64_t from = smaller(j->n, part * j->each);
    dot_stretch(j, from, smaller(j->n, from + j->each), j->sum + part * j->count);
}

void la_dots(int count, int64_t n, const real *const *x, const real *y, double *dot)
{
    if (n < SHORT) {
        for (int i = 0; i < count; i++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) sum += (double)x[i][k] * (double)y[k];
            dot[i] = sum;
        }
        return;
    }
    job j = {.count = count, .n = n, .each = (n + PARTS - 1) / PARTS, .x = x, .y = y};
    for (int i = 0; i < count; i++) dot[i] = 0;
    if (n <= ALONE) {
        dot_stretch(&j, 0, n, dot);
        return;
    }
    double sum[PARTS * LA_VECTORS_MAX] = {0};
    j.sum = sum;
    la_parallel(PARTS, 4.0 * count * (double)n, dot_part, &j);
    for (int part = 0; part < PARTS; part++) {
        for (int i = 0; i < count; i++) dot[i] += sum[part * count + i];
    }
}

static void combine_some(const void *data, int64_t from, int64_t count)
{
    const job *j = data;
    const la_kernels *k = la_kernel();
    for (int64_t at = from; at < from + count; at += TILE) {
        int64_t size = smaller(TILE, from + count - at);
        for (int i = 0; i < j->count; i++) k->axpy(size, (real)j->c[i], j->x[i] + at, j->to + at);
    }
}

void la_combine(int count, int64_t n, const double *c, const real *const *x, real *y)
{
    if (n < SHORT) {
        for (int i = 0; i < count; i++) {
            for (int64_t k = 0; k < n; k++) y[k] += (real)c[i] * x[i][k];
        }
        return;
    }
    la_chunks(n, 4 * TILE, ALONE, combine_some, &(job){.count = count, .c = c, .x = x, .to = y});
}
