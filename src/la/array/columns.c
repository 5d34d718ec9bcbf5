#include "la/array/columns.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

typedef struct sweep {
    int64_t n, chunks, parts, sum_count, width;
    la_chunk_visit visit;
    void *data;
    double *sums;
} sweep;

static void sweep_part(void *data, int64_t p)
{
    const sweep *s = data;
    double *own = s->sums + p * s->width;
    for (int64_t c = p * s->chunks / s->parts; c < (p + 1) * s->chunks / s->parts; c++) {
        int64_t from = c * LA_CHUNK;
        s->visit(s->data, &(la_chunk){from, smaller(LA_CHUNK, s->n - from), own, own + s->sum_count});
    }
}

void la_sweep(int64_t n, la_chunk_visit visit, void *data, int64_t sum_count, int64_t max_count, double *sums)
{
    int64_t chunks = (n + LA_CHUNK - 1) / LA_CHUNK, parts = smaller(LA_PARTS, chunks), width = sum_count + max_count;
    sweep s = {n, chunks, parts, sum_count, width, visit, data, sums};
    memset(sums, 0, (size_t)((parts ? parts : 1) * width) * sizeof(double));
    la_parallel(parts, 10 * (double)n, sweep_part, &s);
    for (int64_t p = 1; p < parts; p++) {
        const double *own = sums + p * width;
        for (int64_t i = 0; i < sum_count; i++) sums[i] += own[i];
        for (int64_t i = sum_count; i < width; i++)
            sums[i] = own[i] <= sums[i] || sums[i] != sums[i] ? sums[i] : own[i];
    }
}

enum { MAX_CHUNK = 1 << 14 }; /* elements that one call of a kernel takes: fits the second-level cache */

typedef struct max_sweep {
    int64_t n, chunks, parts;
    void (*body)(const void *data, int64_t from, int64_t count, real max[2]);
    const void *data;
    real max[LA_PARTS][2];
} max_sweep;

static void max_part(void *data, int64_t p)
{
    max_sweep *s = data;
    real own[2] = {0, 0};
    for (int64_t c = p * s->chunks / s->parts; c < (p + 1) * s->chunks / s->parts; c++) {
        s->body(s->data, c * MAX_CHUNK, smaller(MAX_CHUNK, s->n - c * MAX_CHUNK), own);
    }
    memcpy(s->max[p], own, sizeof own);
}

void la_sweep_max(int64_t n, void (*body)(const void *data, int64_t from, int64_t count, real max[2]), const void *data,
                  real max[2])
{
    int64_t chunks = (n + MAX_CHUNK - 1) / MAX_CHUNK;
    max_sweep s = {.n = n, .chunks = chunks, .parts = smaller(LA_PARTS, chunks), .body = body, .data = data};
    la_parallel(s.parts, 4 * (double)n, max_part, &s);
    max[0] = max[1] = 0;
    for (int64_t p = 0; p < s.parts; p++) {
        for (int i = 0; i < 2; i++) max[i] = la_worse(max[i], s.max[p][i]);
    }
}

void la_panel_dots(const real *P, int64_t n, int64_t r, const la_chunk *rows, const real *x, double *sums)
{
    const la_kernels *k = la_kernel();
    for (int64_t j = 0; j < r; j++) sums[j] += k->dot(rows->count, P + j * n + rows->from, x);
}

void la_panel_add(const real *P, int64_t n, int64_t r, const la_chunk *rows, const double *c, real *x)
{
    const la_kernels *k = la_kernel();
    for (int64_t j = 0; j < r; j++) k->axpy(rows->count, (real)c[j], P + j * n + rows->from, x);
}
