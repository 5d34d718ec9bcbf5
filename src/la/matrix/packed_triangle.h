/* A packed upper triangle, rows one after the other from their diagonal entry on: what one fibre needs of it.
 *
 * Forming reads the triangle once, retracting reads and writes it once. */
#ifndef PSGD_LA_MATRIX_PACKED_TRIANGLE_H
#define PSGD_LA_MATRIX_PACKED_TRIANGLE_H

#include "la/view.h"

#define la_packed_form    PSGD_TYPED(psgd__la_packed_form)
#define la_packed_retract PSGD_TYPED(psgd__la_packed_retract)

static inline int64_t la_packed_start(int64_t n, int64_t row)
{
    return row * n - row * (row - 1) / 2;
}

/* x <- Qx and y <- Q^-T y. */
void la_packed_form(int64_t n, const real *Q, real *x, real *y);

/* Q <- (I - c triu(aa' - bb')) Q; sums has 2n elements of scratch. */
void la_packed_retract(int64_t n, real c, const real *a, const real *b, real *sums, real *Q);

#endif
