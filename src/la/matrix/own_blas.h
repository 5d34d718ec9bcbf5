/* The products and triangles of serial.h by our own kernels, for builds without BLAS and for a BLAS that is slower than
 * they are. One thread; the bits depend on the sizes alone. */
#ifndef PSGD_LA_MATRIX_OWN_BLAS_H
#define PSGD_LA_MATRIX_OWN_BLAS_H

#include "la/matrix/serial.h"

#define own_gemm  PSGD_TYPED(psgd__own_gemm)
#define own_upper PSGD_TYPED(psgd__own_upper)
#define own_syrk  PSGD_TYPED(psgd__own_syrk)
#define own_tri   PSGD_TYPED(psgd__own_tri)

void own_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B,
              int64_t ldb, real beta, real *C, int64_t ldc);

/* The entries on and above the diagonal; some below it, next to it, are overwritten. */
void own_upper(int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B, int64_t ldb,
               real beta, real *C, int64_t ldc);

/* Of the other triangle some entries next to the diagonal are overwritten. */
void own_syrk(bool lower, bool transpose, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, real beta,
              real *C, int64_t ldc);

void own_tri(const serial_tri_op *op, int64_t rows, int64_t columns, real *X, int64_t ldx);

#endif
