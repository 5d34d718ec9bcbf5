/* BLAS glue. A view is either one row-major matrix whose rows are fibres (inner = 1: Q acts from the right, transposed)
 * or outer matrices whose columns are fibres (Q acts from the left). */
#include "la/blas.h"

#include <cblas.h>
#include <limits.h>
#include <omp.h>

#ifdef PSGD_REAL_F64
#define BLAS(name) cblas_d##name
#else
#define BLAS(name) cblas_s##name
#endif

/* Fibres further apart than BLAS can count. */
static bool far_apart(view X)
{
    return X.inner == 1 && X.pitch > INT_MAX;
}

/* They are taken one by one. */
static view one_by_one(view X)
{
    int64_t fibres = X.outer, spacing = X.pitch;
    X.outer = 1;
    X.pitch = X.n;
    return fibres > 1 ? view_repeat(X, fibres, spacing) : X;
}

static CBLAS_TRANSPOSE trans(bool transpose)
{
    return transpose ? CblasTrans : CblasNoTrans;
}

void la_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B,
             int64_t ldb, real beta, real *C, int64_t ldc)
{
    BLAS(gemm)
    (CblasRowMajor, trans(ta), trans(tb), (int)m, (int)n, (int)k, alpha, A, (int)lda, B, (int)ldb, beta, C, (int)ldc);
}

void la_mat_add_mul(const real *M, int64_t rows, int64_t columns, bool transpose, real alpha, view X, real beta, view Y)
{
    if (far_apart(X) || far_apart(Y)) {
        X = one_by_one(X);
        Y = one_by_one(Y);
    }
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) {
            la_mat_add_mul(M, rows, columns, transpose, alpha, view_block(X, b), beta, view_block(Y, b));
        }
        return;
    }
    if (X.inner == 1) {
        la_gemm(false, !transpose, X.outer, Y.n, X.n, alpha, X.x, X.pitch, M, columns, beta, Y.x, Y.pitch);
        return;
    }
    (void)rows;
    for (int64_t o = 0; o < X.outer; o++) {
        la_gemm(transpose, false, Y.n, X.inner, X.n, alpha, M, columns, X.x + o * X.pitch, X.inner, beta,
                Y.x + o * Y.pitch, Y.inner);
    }
}

static CBLAS_UPLO uplo(bool lower)
{
    return lower ? CblasLower : CblasUpper;
}

void la_tri_mul(const real *T, bool lower, bool transpose, view X)
{
    if (far_apart(X)) X = one_by_one(X);
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) la_tri_mul(T, lower, transpose, view_block(X, b));
        return;
    }
    int n = (int)X.n;
    if (X.inner == 1) {
        BLAS(trmm)
        (CblasRowMajor, CblasRight, uplo(lower), trans(!transpose), CblasNonUnit, (int)X.outer, n, 1, T, n, X.x,
         (int)X.pitch);
        return;
    }
    for (int64_t o = 0; o < X.outer; o++) {
        BLAS(trmm)
        (CblasRowMajor, CblasLeft, uplo(lower), trans(transpose), CblasNonUnit, n, (int)X.inner, 1, T, n,
         X.x + o * X.pitch, (int)X.inner);
    }
}

void la_tri_solve(const real *T, bool lower, bool transpose, view X)
{
    if (far_apart(X)) X = one_by_one(X);
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) la_tri_solve(T, lower, transpose, view_block(X, b));
        return;
    }
    int n = (int)X.n;
    if (X.inner == 1) {
        BLAS(trsm)
        (CblasRowMajor, CblasRight, uplo(lower), trans(!transpose), CblasNonUnit, (int)X.outer, n, 1, T, n, X.x,
         (int)X.pitch);
        return;
    }
    for (int64_t o = 0; o < X.outer; o++) {
        BLAS(trsm)
        (CblasRowMajor, CblasLeft, uplo(lower), trans(transpose), CblasNonUnit, n, (int)X.inner, 1, T, n,
         X.x + o * X.pitch, (int)X.inner);
    }
}

void la_sym_outer(view X, bool lower, real alpha, real beta, real *R)
{
    if (far_apart(X)) X = one_by_one(X);
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) la_sym_outer(view_block(X, b), lower, alpha, b ? 1 : beta, R);
        return;
    }
    int n = (int)X.n;
    if (X.inner == 1) {
        BLAS(syrk)(CblasRowMajor, uplo(lower), CblasTrans, n, (int)X.outer, alpha, X.x, (int)X.pitch, beta, R, n);
        return;
    }
    for (int64_t o = 0; o < X.outer; o++) {
        BLAS(syrk)
        (CblasRowMajor, uplo(lower), CblasNoTrans, n, (int)X.inner, alpha, X.x + o * X.pitch, (int)X.inner,
         o ? 1 : beta, R, n);
    }
}

void la_cross_outer(view X, view Y, real alpha, real beta, real *R)
{
    if (far_apart(X) || far_apart(Y)) {
        X = one_by_one(X);
        Y = one_by_one(Y);
    }
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) {
            la_cross_outer(view_block(X, b), view_block(Y, b), alpha, b ? 1 : beta, R);
        }
        return;
    }
    if (X.inner == 1) {
        la_gemm(true, false, X.n, Y.n, X.outer, alpha, X.x, X.pitch, Y.x, Y.pitch, beta, R, Y.n);
        return;
    }
    for (int64_t o = 0; o < X.outer; o++) {
        la_gemm(false, true, X.n, Y.n, X.inner, alpha, X.x + o * X.pitch, X.inner, Y.x + o * Y.pitch, Y.inner,
                o ? 1 : beta, R, Y.n);
    }
}

/* Plain loops for a small block: row i of the product needs old rows i.. (upper) or ..i (lower), so rows go in the
 * order that still has them. */
static void small_tri_product(int64_t n, int64_t ld, bool lower, const real *T, real *Q)
{
    for (int64_t step = 0; step < n; step++) {
        int64_t i = lower ? n - 1 - step : step;
        int64_t first = lower ? 0 : i, last = lower ? i : n - 1;
        real *row = Q + i * ld;
        for (int64_t j = first; j <= last; j++) row[j] *= T[i * ld + i];
        for (int64_t k = first; k <= last; k++) {
            if (k == i) continue;
            real t = T[i * ld + k];
            const real *other = Q + k * ld;
            int64_t from = lower ? 0 : k, to = lower ? k : n - 1;
            for (int64_t j = from; j <= to; j++) row[j] += t * other[j];
        }
    }
}

enum {
    SIDE_BY_SIDE = 1024
}; /* side up to which the two halves run on a thread each: their products are too small to share */

/* [T11 T12; 0 T22] [Q11 Q12; 0 Q22]: the corner is T11 Q12 + T12 Q22, then each half by itself. Lower triangles are the
 * same with the halves exchanged. */
static void tri_product(int64_t n, int64_t ld, bool lower, real *T, real *Q)
{
    if (n <= 48) {
        small_tri_product(n, ld, lower, T, Q);
        return;
    }
    int64_t h = n / 2, g = n - h;
    real *T22 = T + h * ld + h, *Q22 = Q + h * ld + h;
    real *Tc = lower ? T + h * ld : T + h, *Qc = lower ? Q + h * ld : Q + h;
    int rows = (int)(lower ? g : h), columns = (int)(lower ? h : g);
    BLAS(trmm)
    (CblasRowMajor, CblasRight, uplo(lower), CblasNoTrans, CblasNonUnit, rows, columns, 1, lower ? Q : Q22, (int)ld, Tc,
     (int)ld);
    BLAS(trmm)
    (CblasRowMajor, CblasLeft, uplo(lower), CblasNoTrans, CblasNonUnit, rows, columns, 1, lower ? T22 : T, (int)ld, Qc,
     (int)ld);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) Qc[i * ld + j] += Tc[i * ld + j];
    }
#pragma omp parallel sections num_threads(2) if (n <= SIDE_BY_SIDE && !omp_in_parallel() && omp_get_max_threads() > 1)
    {
#pragma omp section
        tri_product(h, ld, lower, T, Q);
#pragma omp section
        tri_product(g, ld, lower, T22, Q22);
    }
}

void la_tri_product(int64_t n, bool lower, real *T, real *Q)
{
    tri_product(n, n, lower, T, Q);
}
