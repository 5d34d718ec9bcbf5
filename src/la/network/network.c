/* Elementwise work and products on rows of samples, split over threads by fixed sizes. */
#include "la/network/network.h"
#include "la/matrix/blas.h"
#include "la/matrix/small_blas.h"
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

static void apply_some(const void *data, int64_t from, int64_t count)
{
    const arrays *v = data;
    la_kernel()->apply(v->f, v->c, count, v->a + from, v->y + from);
}

void la_apply(la_function f, real leak, int64_t n, const real *x, real *y)
{
    la_chunks(n, CHUNK, PARALLEL, apply_some, &(arrays){.f = f, .c = leak, .a = x, .y = y});
}

static void slope_some(const void *data, int64_t from, int64_t count)
{
    const arrays *v = data;
    la_kernel()->slope(v->f, v->c, count, v->a + from, v->d + from, v->add, v->y + from);
}

void la_slope(la_function f, real leak, int64_t n, const real *y, const real *d, bool add, real *z)
{
    la_chunks(n, CHUNK, PARALLEL, slope_some, &(arrays){.f = f, .c = leak, .a = y, .d = d, .add = add, .y = z});
}

static void curve_some(const void *data, int64_t from, int64_t count)
{
    const arrays *v = data;
    la_kernel()->curve(v->f, v->c, count, v->a + from, v->b + from, v->d + from, v->e + from, v->add, v->y + from);
}

void la_curve(la_function f, real leak, int64_t n, const real *y, const real *ty, const real *d, const real *td,
              bool add, real *z)
{
    la_chunks(n, CHUNK, PARALLEL, curve_some, &(arrays){f, leak, y, ty, d, td, add, z});
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

/* Products that our kernels are not made for, and that BLAS would share out in a way that depends on the number of
 * threads: each thread takes a part of the rows, and the cut depends on the sizes only. With few samples, as a batch of
 * an LSTM has them, a quarter of the rows is also where BLAS is the fastest, as it packs nothing. */
enum { FEW_SAMPLES = 32, BLOCKS = 4, MAX = 1 << 25, MIN = 1 << 18 };

static bool cut(int64_t m, int64_t n, int64_t k, bool special)
{
    double work = (double)m * (double)n * (double)k;
    return special && m >= 8 * BLOCKS && work > MIN && work < MAX;
}

typedef struct blocks_job {
    const la_factors *f;
    bool add;
    real *C;
    int64_t ld;
} blocks_job;

static void run_block(void *data, int64_t b)
{
    const blocks_job *j = data;
    const la_factors *f = j->f;
    int64_t from = b * f->m / BLOCKS, count = (b + 1) * f->m / BLOCKS - from;
    la_blas_gemm(f->ta, f->tb, count, f->n, f->k, 1, f->A + (f->ta ? from : from * f->lda), f->lda, f->B, f->ldb,
                 j->add ? 1 : 0, j->C + from * j->ld, j->ld);
}

/* C <- [C +] op(A) op(B) */
static void product_by_blocks(const la_factors *f, bool add, real *C, int64_t ld)
{
    la_parallel(BLOCKS, 2 * (double)f->m * (double)f->n * (double)f->k, run_block, &(blocks_job){f, add, C, ld});
}

void la_product(int64_t rows, int64_t columns, int64_t n, const real *W, int64_t ld, bool transpose, const real *X,
                bool add, real *Y)
{
    int64_t out = transpose ? columns : rows, in = transpose ? rows : columns;
    if (cut(out, n, in, n < FEW_SAMPLES || in > LA_BLOCK_MAX)) {
        product_by_blocks(&(la_factors){transpose, false, out, n, in, W, ld, X, n}, add, Y, n);
    } else {
        la_gemm(transpose, false, out, n, in, 1, W, ld, X, n, add ? 1 : 0, Y, n);
    }
}

void la_outer(int64_t rows, int64_t columns, int64_t n, const real *A, const real *B, bool add, real *R, int64_t ld)
{
    if (cut(rows, columns, n, n > LA_BLOCK_MAX)) {
        product_by_blocks(&(la_factors){false, true, rows, columns, n, A, n, B, n}, add, R, ld);
    } else {
        la_gemm(false, true, rows, columns, n, 1, A, n, B, n, add ? 1 : 0, R, ld);
    }
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
