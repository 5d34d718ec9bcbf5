/* Small square matrices in double, row-major, for families that keep r x r of them. */
#ifndef PSGD_GROUP_FAMILY_SMALL_MATRIX_H
#define PSGD_GROUP_FAMILY_SMALL_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

#define small_invert   PSGD_TYPED(psgd__small_invert)
#define small_positive PSGD_TYPED(psgd__small_positive)
#define small_mul      PSGD_TYPED(psgd__small_mul)

/* inverse <- M^-1 by elimination with pivots; work has r * r entries. false where M is singular to working precision of
 * the dtype, or not finite. */
bool small_invert(int64_t r, const double *M, double *inverse, double *work);

/* Whether the symmetric matrix whose lower triangle M holds is positive definite; M becomes its Cholesky factor. */
bool small_positive(int64_t r, double *M);

/* y <- M x or M'x. */
void small_mul(int64_t r, const double *M, bool transpose, const double *x, double *y);

#endif
