/* BLAS glue. Triangles and symmetric sums of small sides have kernels of their own: see block.h. A view is either one
 * row-major matrix whose rows are fibres (inner = 1: Q acts from the right, transposed) or outer matrices whose columns
 * are fibres (Q acts from the left). */
#include "la/matrix/blas.h"
#include "la/matrix/small_blas.h"
#include "la/la.h"

#include <cblas.h>
#include <limits.h>
#include <string.h>

#ifdef PSGD_REAL_F64
#define BLAS(name) cblas_d##name
#else
#define BLAS(name) cblas_s##name
#endif

/* Fibres further apart than BLAS can count. */
static bool far_apart(view X)
{
    return X.inner == 1 && X.ld > INT_MAX;
}

/* They are taken one by one. */
static view one_by_one(view X)
{
    int64_t fibres = X.outer, spacing = X.ld;
    X.outer = 1;
    X.ld = X.n;
    return fibres > 1 ? view_repeat(X, fibres, spacing) : X;
}

static CBLAS_TRANSPOSE trans(bool transpose)
{
    return transpose ? CblasTrans : CblasNoTrans;
}

/* Multiplications of a product between which our kernels are faster, two threads being about twice as fast as one. */
enum { TINY_PRODUCT = 1 << 16, SMALL_PRODUCT = 1 << 25 };

static bool product_is_small(int64_t m, int64_t n, int64_t k)
{
    double work = (double)m * (double)n * (double)k;
    return k <= LA_BLOCK_MAX && m > 1 && n > 1 && work > TINY_PRODUCT && work <= SMALL_PRODUCT;
}

void la_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B,
             int64_t ldb, real beta, real *C, int64_t ldc)
{
    if (product_is_small(m, n, k) && (beta == 0 || beta == 1)) {
        la_block_gemm(&(la_factors){ta, tb, m, n, k, A, lda, B, ldb}, alpha, beta == 1, C, ldc);
        return;
    }
    la_blas_gemm(ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

void la_blas_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda,
                  const real *B, int64_t ldb, real beta, real *C, int64_t ldc)
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
        la_gemm(false, !transpose, X.outer, Y.n, X.n, alpha, X.x, X.ld, M, columns, beta, Y.x, Y.ld);
        return;
    }
    (void)rows;
    for (int64_t o = 0; o < X.outer; o++) {
        la_gemm(transpose, false, Y.n, X.inner, X.n, alpha, M, columns, X.x + o * X.ld, X.inner, beta, Y.x + o * Y.ld,
                Y.inner);
    }
}

static CBLAS_UPLO uplo(bool lower)
{
    return lower ? CblasLower : CblasUpper;
}

void la_tri_mul(const real *T, bool lower, bool transpose, view X)
{
    if (X.n <= LA_BLOCK_MAX) {
        la_block_tri(T, lower, 1, &(la_block_op){.X = X, .count = 1, .transpose = {transpose}});
        return;
    }
    if (far_apart(X)) X = one_by_one(X);
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) la_tri_mul(T, lower, transpose, view_block(X, b));
        return;
    }
    int n = (int)X.n;
    if (X.inner == 1) {
        BLAS(trmm)
        (CblasRowMajor, CblasRight, uplo(lower), trans(!transpose), CblasNonUnit, (int)X.outer, n, 1, T, n, X.x,
         (int)X.ld);
        return;
    }
    for (int64_t o = 0; o < X.outer; o++) {
        BLAS(trmm)
        (CblasRowMajor, CblasLeft, uplo(lower), trans(transpose), CblasNonUnit, n, (int)X.inner, 1, T, n,
         X.x + o * X.ld, (int)X.inner);
    }
}

void la_tri_solve(const real *T, bool lower, bool transpose, view X)
{
    if (X.n <= LA_BLOCK_MAX) {
        la_block_tri(T, lower, 1, &(la_block_op){.X = X, .solve = true, .count = 1, .transpose = {transpose}});
        return;
    }
    if (far_apart(X)) X = one_by_one(X);
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) la_tri_solve(T, lower, transpose, view_block(X, b));
        return;
    }
    int n = (int)X.n;
    if (X.inner == 1) {
        BLAS(trsm)
        (CblasRowMajor, CblasRight, uplo(lower), trans(!transpose), CblasNonUnit, (int)X.outer, n, 1, T, n, X.x,
         (int)X.ld);
        return;
    }
    for (int64_t o = 0; o < X.outer; o++) {
        BLAS(trsm)
        (CblasRowMajor, CblasLeft, uplo(lower), trans(transpose), CblasNonUnit, n, (int)X.inner, 1, T, n,
         X.x + o * X.ld, (int)X.inner);
    }
}

void la_tri_form(const real *T, bool lower, view A, view B)
{
    if (A.n <= LA_BLOCK_MAX) {
        la_block_op of_B = {.X = B, .solve = true, .count = 1, .transpose = {true}}, of_A = {.X = A, .count = 1};
        la_block_tri(T, lower, 2, (la_block_op[]){of_B, of_A});
        return;
    }
    la_tri_mul(T, lower, false, A);
    la_tri_solve(T, lower, true, B);
}

void la_tri_square(const real *T, bool lower, view X)
{
    if (X.n <= LA_BLOCK_MAX) {
        la_block_tri(T, lower, 1, &(la_block_op){.X = X, .count = 2, .transpose = {false, true}});
        return;
    }
    la_tri_mul(T, lower, false, X);
    la_tri_mul(T, lower, true, X);
}

/* The upper or lower triangle of R <- beta R + alpha XX'. */
static void sym_outer(view X, bool lower, real alpha, real beta, real *R)
{
    if (far_apart(X)) X = one_by_one(X);
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) sym_outer(view_block(X, b), lower, alpha, b ? 1 : beta, R);
        return;
    }
    int n = (int)X.n;
    if (X.inner == 1) {
        BLAS(syrk)(CblasRowMajor, uplo(lower), CblasTrans, n, (int)X.outer, alpha, X.x, (int)X.ld, beta, R, n);
        return;
    }
    for (int64_t o = 0; o < X.outer; o++) {
        BLAS(syrk)
        (CblasRowMajor, uplo(lower), CblasNoTrans, n, (int)X.inner, alpha, X.x + o * X.ld, (int)X.inner, o ? 1 : beta,
         R, n);
    }
}

void la_sym_outer(view A, view B, int sign, bool lower, bool accumulate, real *R)
{
    int64_t n = A.n;
    if (!A.x && !B.x) {
        if (!accumulate) memset(R, 0, (size_t)(n * n) * sizeof(real));
    } else if (n <= LA_BLOCK_MAX) {
        la_block_outer(A, B, sign, lower, accumulate, R);
    } else {
        /* beta = 0 overwrites, whatever stood in R. */
        if (A.x) sym_outer(A, lower, 1, accumulate ? 1 : 0, R);
        if (B.x) sym_outer(B, lower, (real)sign, accumulate || A.x ? 1 : 0, R);
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
        la_gemm(true, false, X.n, Y.n, X.outer, alpha, X.x, X.ld, Y.x, Y.ld, beta, R, Y.n);
        return;
    }
    for (int64_t o = 0; o < X.outer; o++) {
        la_gemm(false, true, X.n, Y.n, X.inner, alpha, X.x + o * X.ld, X.inner, Y.x + o * Y.ld, Y.inner, o ? 1 : beta,
                R, Y.n);
    }
}

/* Q <- TQ. [T11 T12; 0 T22] [Q11 Q12; 0 Q22]: the corner is T11 Q12 + T12 Q22, then each half by itself. Lower
 * triangles are the same with the halves exchanged. T is destroyed. */
static void tri_product(int64_t n, int64_t ld, bool lower, real *T, real *Q)
{
    if (n <= LA_BLOCK_MAX) {
        la_block_product(n, ld, lower, false, 0, T, Q);
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
    tri_product(h, ld, lower, T, Q);
    tri_product(g, ld, lower, T22, Q22);
}

void la_tri_retract(int64_t n, bool lower, real c, real *R, real *Q)
{
    if (n <= LA_BLOCK_MAX) {
        la_block_product(n, n, lower, true, c, R, Q);
        return;
    }
    la_scale(n * n, -c, R);
    for (int64_t i = 0; i < n; i++) R[i * n + i] += 1;
    tri_product(n, n, lower, R, Q);
}
