/* Products, solves and spectra on views, for both dtypes. Matrices are row-major. */
#ifndef PSGD_LA_MATRIX_BLAS_H
#define PSGD_LA_MATRIX_BLAS_H

#include <stdbool.h>

#include "core/rng.h"
#include "la/view.h"

#define la_mat_add_mul    PSGD_TYPED(psgd__la_mat_add_mul)
#define la_tri_mul        PSGD_TYPED(psgd__la_tri_mul)
#define la_tri_solve      PSGD_TYPED(psgd__la_tri_solve)
#define la_sym_outer      PSGD_TYPED(psgd__la_sym_outer)
#define la_cross_outer    PSGD_TYPED(psgd__la_cross_outer)
#define la_tri_form       PSGD_TYPED(psgd__la_tri_form)
#define la_tri_square     PSGD_TYPED(psgd__la_tri_square)
#define la_tri_retract    PSGD_TYPED(psgd__la_tri_retract)
#define la_packed_form    PSGD_TYPED(psgd__la_packed_form)
#define la_packed_retract PSGD_TYPED(psgd__la_packed_retract)
#define la_gemm           PSGD_TYPED(psgd__la_gemm)
#define la_blas_gemm      PSGD_TYPED(psgd__la_blas_gemm)
#define la_invert         PSGD_TYPED(psgd__la_invert)
#define la_sym_power      PSGD_TYPED(psgd__la_sym_power)
#define la_svd_range      PSGD_TYPED(psgd__la_svd_range)
#define la_sym_product    PSGD_TYPED(psgd__la_sym_product)
#define la_mirror         PSGD_TYPED(psgd__la_mirror)
#define la_symmetrise     PSGD_TYPED(psgd__la_symmetrise)
#define la_skew           PSGD_TYPED(psgd__la_skew)
#define la_norm_estimate  PSGD_TYPED(psgd__la_norm_estimate)

/* Y <- beta Y + alpha M X or alpha M'X; X and Y are views over the same fibres, apart in memory. */
void la_mat_add_mul(const real *M, int64_t columns, bool transpose, real alpha, view X, real beta, view Y);

/* X <- T X or T'X, X <- T^-1 X or T^-T X, for the upper or lower triangle of the n x n matrix T. */
void la_tri_mul(const real *T, bool lower, bool transpose, view X);
void la_tri_solve(const real *T, bool lower, bool transpose, view X);
void la_tri_form(const real *T, bool lower, view A, view B); /* A <- T A and B <- T^-T B, of the same shape */
void la_tri_square(const real *T, bool lower, view X);       /* X <- T'T X */

/* The upper or lower triangle of R <- [R +] AA' + sign BB', summed over all fibres; entries near the diagonal of the
 * other triangle may be written as well. A or B may be empty. */
void la_sym_outer(view A, view B, int sign, bool lower, bool accumulate, real *R);

/* R <- beta R + alpha XY', X.n x Y.n, summed over all fibres, which X and Y share. */
void la_cross_outer(view X, view Y, real alpha, real beta, real *R);

/* Q <- Q - c R Q for two n x n triangles, n^3/3 flops; R is destroyed. */
void la_tri_retract(int64_t n, bool lower, real c, real *R, real *Q);

/* A packed upper triangle Q, rows one after the other from their diagonal entry on. */
static inline int64_t la_packed_start(int64_t n, int64_t row)
{
    return row * n - row * (row - 1) / 2;
}

/* x <- Qx and y <- Q^-T y, in one pass over Q; Q <- (I - c triu(aa' - bb')) Q, sums having 2n elements of scratch. */
void la_packed_form(int64_t n, const real *Q, real *x, real *y);
void la_packed_retract(int64_t n, real c, const real *a, const real *b, real *sums, real *Q);

/* C <- beta C + alpha op(A) op(B), C m x n, inner dimension k, leading dimensions as row-major CBLAS wants them. */
void la_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B,
             int64_t ldb, real beta, real *C, int64_t ldc);

/* The same without the kernels of small_blas.h, whatever the sizes. */
void la_blas_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda,
                  const real *B, int64_t ldb, real beta, real *C, int64_t ldc);

/* The upper triangle of C <- C + alpha A B for square matrices, n^3 flops and a little more; entries near the diagonal
 * of the lower triangle may be written as well. */
void la_sym_product(int64_t n, real alpha, const real *A, const real *B, real *C);

/* Square matrices and their transposes. */
void la_mirror(int64_t n, real *M);              /* the lower triangle <- the mirror image of the upper one */
void la_symmetrise(int64_t n, real *M);          /* M <- (M + M')/2 */
void la_skew(int64_t n, const real *M, real *S); /* S <- M' - M */

/* ||M||_2 of a symmetric or skew M from below: 0.85 to 1 times the true value. The same draw gives the same result;
 * work has la_norm_work(n) elements. */
double la_norm_estimate(int64_t n, const real *M, const rng_stream *draw, real *work);
enum { LA_NORM_ROWS = 32 };
static inline int64_t la_norm_work(int64_t n)
{
    return 2 * LA_NORM_ROWS * n;
}

/* M <- M^-1 by LU. pivots has n ints, work 32 n elements. false where M is singular; M is then destroyed. */
bool la_invert(int64_t n, real *M, int *pivots, real *work);

/* Smallest and largest singular value of the n x n matrix M, which is destroyed; work has la_svd_work(n) elements. */
bool la_svd_range(int64_t n, real *M, real *work, double *smallest, double *largest);
static inline int64_t la_svd_work(int64_t n)
{
    return 81 * n;
}

/* to <- M^power for the symmetric n x n matrix M, which is destroyed; eigenvalues below epsilon times the largest count
 * as that. work has la_sym_power_work(n) elements. false, with to as it was, where the iteration fails or M is zero. */
bool la_sym_power(int64_t n, real *M, double power, real *to, real *work);
static inline int64_t la_sym_power_work(int64_t n)
{
    return n + 34 * n + 2 * n * n + 4;
}

#endif
