#include "la/array/columns.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <string.h>

enum { MAX_CHUNK = 1 << 14 }; /* elements of a chunk of la_sweep_max: fit the second-level cache */

typedef struct sweeping {
    int64_t n, chunk, chunks, parts, sum_count, width;
    la_chunk_visit visit;
    void *data;
    double *sums;
} sweeping;

static void sweep_part(void *data, int64_t p)
{
    const sweeping *s = data;
    double *own = s->sums + p * s->width;
    for (int64_t c = p * s->chunks / s->parts; c < (p + 1) * s->chunks / s->parts; c++) {
        int64_t from = c * s->chunk;
        s->visit(s->data, &(la_chunk){from, smaller(s->chunk, s->n - from), own, own + s->sum_count});
    }
}

static void sweep(sweeping s, double work)
{
    s.chunks = (s.n + s.chunk - 1) / s.chunk;
    s.parts = smaller(LA_PARTS, s.chunks);
    memset(s.sums, 0, (size_t)(larger(1, s.parts) * s.width) * sizeof(double));
    la_parallel(s.parts, work, sweep_part, &s);
    for (int64_t p = 1; p < s.parts; p++) {
        const double *own = s.sums + p * s.width;
        for (int64_t i = 0; i < s.sum_count; i++) s.sums[i] += own[i];
        for (int64_t i = s.sum_count; i < s.width; i++) la_raise(&s.sums[i], own[i]);
    }
}

void la_sweep(int64_t n, la_chunk_visit visit, void *data, int64_t sum_count, int64_t max_count, double *sums)
{
    int64_t width = sum_count + max_count;
    sweep((sweeping){n, LA_CHUNK, 0, 0, sum_count, width, visit, data, sums}, 10 * (double)n);
}

void la_sweep_max(int64_t n, la_chunk_visit visit, void *data, double max[2])
{
    double sums[2 * LA_PARTS];
    sweep((sweeping){n, MAX_CHUNK, 0, 0, 0, 2, visit, data, sums}, 4 * (double)n);
    memcpy(max, sums, 2 * sizeof *max);
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
