/* Elementwise work and products on rows of samples, split over threads by fixed sizes. */
#include "la/network/network.h"
#include "la/matrix/blas.h"
#include "la/matrix/small_blas.h"
#include "la/array/dispatch.h"

enum { CHUNK = 1 << 13, PARALLEL = 1 << 15 };

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void la_apply(la_function f, real leak, int64_t n, const real *x, real *y)
{
    const la_kernels *k = la_kernel();
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i += CHUNK) k->apply(f, leak, smaller(CHUNK, n - i), x + i, y + i);
}

void la_slope(la_function f, real leak, int64_t n, const real *y, const real *d, bool add, real *z)
{
    const la_kernels *k = la_kernel();
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i += CHUNK) k->slope(f, leak, smaller(CHUNK, n - i), y + i, d + i, add, z + i);
}

void la_curve(la_function f, real leak, int64_t n, const real *y, const real *ty, const real *d, const real *td,
              bool add, real *z)
{
    const la_kernels *k = la_kernel();
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i += CHUNK) {
        k->curve(f, leak, smaller(CHUNK, n - i), y + i, ty + i, d + i, td + i, add, z + i);
    }
}

void la_accumulate(int64_t n, real c, const real *x, bool add, real *y)
{
#pragma omp parallel for simd if (parallel : n > PARALLEL)
    for (int64_t i = 0; i < n; i++) y[i] = add ? y[i] + c * x[i] : c * x[i];
}

void la_multiply(int64_t n, const real *a, const real *b, bool add, real *y)
{
#pragma omp parallel for simd if (parallel : n > PARALLEL)
    for (int64_t i = 0; i < n; i++) y[i] = add ? y[i] + a[i] * b[i] : a[i] * b[i];
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

/* C <- [C +] op(A) op(B) */
static void product_by_blocks(const la_factors *f, bool add, real *C, int64_t ld)
{
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < BLOCKS; b++) {
        int64_t from = b * f->m / BLOCKS, count = (b + 1) * f->m / BLOCKS - from;
        la_blas_gemm(f->ta, f->tb, count, f->n, f->k, 1, f->A + (f->ta ? from : from * f->lda), f->lda, f->B, f->ldb,
                     add ? 1 : 0, C + from * ld, ld);
    }
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

void la_row_sums(int64_t rows, int64_t n, const real *A, bool add, real *r, int64_t ld)
{
    const la_kernels *k = la_kernel();
#pragma omp parallel for if (rows * n > PARALLEL)
    for (int64_t i = 0; i < rows; i++) {
        double sum = k->sum(n, A + i * n);
        r[i * ld] = add ? r[i * ld] + (real)sum : (real)sum;
    }
}

void la_spread_bias(int64_t rows, int64_t n, const real *b, int64_t ld, bool add, real *Y)
{
    for (int64_t i = 0; i < rows; i++) {
        real own = b[i * ld];
        for (int64_t j = 0; j < n; j++) Y[i * n + j] = add ? Y[i * n + j] + own : own;
    }
}
