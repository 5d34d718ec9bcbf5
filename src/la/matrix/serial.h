/* The products and factorisations that the rest of la/matrix is built on, each on one thread. Matrices are row-major.
 *
 * cblas.c calls CBLAS and LAPACK, no_blas.c is plain C; PSGD_BLAS chooses which of them is compiled. Where CBLAS is
 * slower than our kernels, the products and triangles of both are those of own_blas.c. */
#ifndef PSGD_LA_MATRIX_SERIAL_H
#define PSGD_LA_MATRIX_SERIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"

#define serial_gemm      PSGD_TYPED(psgd__serial_gemm)
#define serial_upper     PSGD_TYPED(psgd__serial_upper)
#define serial_syrk      PSGD_TYPED(psgd__serial_syrk)
#define serial_tri       PSGD_TYPED(psgd__serial_tri)
#define serial_tri_op    PSGD_TYPED(serial_tri_op)
#define serial_singular  PSGD_TYPED(psgd__serial_singular)
#define serial_sym_eigen PSGD_TYPED(psgd__serial_sym_eigen)

/* C <- beta C + alpha op(A) op(B), C m x n, inner dimension k. beta = 0 overwrites C whatever it holds. */
void serial_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda,
                 const real *B, int64_t ldb, real beta, real *C, int64_t ldc);

/* The entries on and above the diagonal of C <- beta C + alpha A B, C m x n; some below it are overwritten. */
void serial_upper(int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B, int64_t ldb,
                  real beta, real *C, int64_t ldc);

/* The lower or upper triangle of C <- beta C + alpha op(A) op(A)', C n x n, op(A) n x k. */
void serial_syrk(bool lower, bool transpose, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, real beta,
                 real *C, int64_t ldc);

/* X <- op(T) X, or with right X op(T); with solve the inverse of op(T) instead. */
typedef struct serial_tri_op {
    bool solve, right, lower, transpose;
    const real *T;
    int64_t ldt;
} serial_tri_op;

void serial_tri(const serial_tri_op *op, int64_t rows, int64_t columns, real *X, int64_t ldx);

/* The singular values of the n x n matrix M, descending; M is destroyed, work has 80 n elements. */
bool serial_singular(int64_t n, real *M, real *values, real *work);

/* The eigenvalues, ascending, of the symmetric n x n matrix whose lower triangle is in M, which becomes the
 * eigenvectors, one a row. work has 34 n + 2 n^2 + 4 elements. */
bool serial_sym_eigen(int64_t n, real *M, real *values, real *work);

#endif
