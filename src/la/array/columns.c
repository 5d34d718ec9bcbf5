#include "la/array/columns.h"
#include "la/array/dispatch.h"

#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void la_sweep(int64_t n, la_chunk_visit visit, void *data, int64_t sum_count, int64_t max_count, double *sums)
{
    int64_t chunks = (n + LA_CHUNK - 1) / LA_CHUNK, parts = smaller(LA_PARTS, chunks), width = sum_count + max_count;
    memset(sums, 0, (size_t)((parts ? parts : 1) * width) * sizeof(double));
#pragma omp parallel for if (parts > 8)
    for (int64_t p = 0; p < parts; p++) {
        double *own = sums + p * width;
        for (int64_t c = p * chunks / parts; c < (p + 1) * chunks / parts; c++) {
            int64_t from = c * LA_CHUNK;
            visit(data, &(la_chunk){from, smaller(LA_CHUNK, n - from), own, own + sum_count});
        }
    }
    for (int64_t p = 1; p < parts; p++) {
        const double *own = sums + p * width;
        for (int64_t i = 0; i < sum_count; i++) sums[i] += own[i];
        for (int64_t i = sum_count; i < width; i++)
            sums[i] = own[i] <= sums[i] || sums[i] != sums[i] ? sums[i] : own[i];
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
