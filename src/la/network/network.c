/* Elementwise work and products on rows of samples, split over threads by fixed sizes. */
#include "la/network/network.h"
#include "la/matrix/blas.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

enum { CHUNK = 1 << 13, PARALLEL = 1 << 15 };

/* What one call works on. */
typedef struct arrays {
    la_function f;
    real c;
    const real *a, *b, *d, *e;
    bool add;
    real *y;
} arrays;

/* The function itself, its slope or its curve, as far as arguments are given. */
static void function_some(const void *data, int64_t from, int64_t count)
{
    const arrays *v = data;
    const la_kernels *k = la_kernel();
    if (v->e) {
        k->curve(v->f, v->c, count, v->a + from, v->b + from, v->d + from, v->e + from, v->add, v->y + from);
    } else if (v->d) {
        k->slope(v->f, v->c, count, v->a + from, v->d + from, v->add, v->y + from);
    } else {
        k->apply(v->f, v->c, count, v->a + from, v->y + from);
    }
}

void la_apply(la_function f, real leak, int64_t n, const real *x, real *y)
{
    la_chunks(n, CHUNK, PARALLEL, function_some, &(arrays){.f = f, .c = leak, .a = x, .y = y});
}

void la_slope(la_function f, real leak, int64_t n, const real *y, const real *d, bool add, real *z)
{
    la_chunks(n, CHUNK, PARALLEL, function_some, &(arrays){.f = f, .c = leak, .a = y, .d = d, .add = add, .y = z});
}

void la_curve(la_function f, real leak, int64_t n, const real *y, const real *ty, const real *d, const real *td,
              bool add, real *z)
{
    la_chunks(n, CHUNK, PARALLEL, function_some, &(arrays){f, leak, y, ty, d, td, add, z});
}

static void accumulate_some(const void *data, int64_t from, int64_t count)
{
    const arrays *v = data;
    const real *x = v->a + from;
    real c = v->c, *y = v->y + from;
    bool add = v->add;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = add ? y[i] + c * x[i] : c * x[i];
}

void la_accumulate(int64_t n, real c, const real *x, bool add, real *y)
{
    la_chunks(n, CHUNK, PARALLEL, accumulate_some, &(arrays){.c = c, .a = x, .add = add, .y = y});
}

static void multiply_some(const void *data, int64_t from, int64_t count)
{
    const arrays *v = data;
    const real *a = v->a + from, *b = v->b + from;
    real *y = v->y + from;
    bool add = v->add;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = add ? y[i] + a[i] * b[i] : a[i] * b[i];
}

void la_multiply(int64_t n, const real *a, const real *b, bool add, real *y)
{
    la_chunks(n, CHUNK, PARALLEL, multiply_some, &(arrays){.a = a, .b = b, .add = add, .y = y});
}

/* With few samples, as a batch of an LSTM has them, BLAS is faster than our kernels. */
enum { FEW_SAMPLES = 32, MIN_ROWS = 32, MIN_WORK = 1 << 18 };

void la_product(int64_t rows, int64_t columns, int64_t n, const real *W, int64_t ld, bool transpose, const real *X,
                bool add, real *Y)
{
    int64_t out = transpose ? columns : rows, in = transpose ? rows : columns;
    bool few = n < FEW_SAMPLES && out >= MIN_ROWS && (double)rows * (double)columns * (double)n > MIN_WORK;
    (few ? la_blas_gemm : la_gemm)(transpose, false, out, n, in, 1, W, ld, X, n, add ? 1 : 0, Y, n);
}

void la_outer(int64_t rows, int64_t columns, int64_t n, const real *A, const real *B, bool add, real *R, int64_t ld)
{
    la_gemm(false, true, rows, columns, n, 1, A, n, B, n, add ? 1 : 0, R, ld);
}

typedef struct sums_job {
    int64_t n;
    const real *A;
    bool add;
    real *r;
    int64_t ld;
} sums_job;

static void sum_row(void *data, int64_t i)
{
    const sums_job *j = data;
    real sum = (real)la_kernel()->sum(j->n, j->A + i * j->n), *to = j->r + i * j->ld;
    *to = j->add ? *to + sum : sum;
}

void la_row_sums(int64_t rows, int64_t n, const real *A, bool add, real *r, int64_t ld)
{
    la_parallel(rows, 4 * (double)rows * (double)n, sum_row, &(sums_job){n, A, add, r, ld});
}

void la_spread_bias(int64_t rows, int64_t n, const real *b, int64_t ld, bool add, real *Y)
{
    for (int64_t i = 0; i < rows; i++) {
        real own = b[i * ld];
        for (int64_t j = 0; j < n; j++) Y[i * n + j] = add ? Y[i * n + j] + own : own;
    }
}
