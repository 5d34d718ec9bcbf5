/* What networks are made of, on arrays whose last dimension is the sample: every inner loop runs over samples. */
#ifndef PSGD_LA_NETWORK_NETWORK_H
#define PSGD_LA_NETWORK_NETWORK_H

#include <stdbool.h>

#include "la/kernel/kernel.h"

#define la_apply       PSGD_TYPED(psgd__la_apply)
#define la_slope       PSGD_TYPED(psgd__la_slope)
#define la_curve       PSGD_TYPED(psgd__la_curve)
#define la_accumulate  PSGD_TYPED(psgd__la_accumulate)
#define la_multiply    PSGD_TYPED(psgd__la_multiply)
#define la_product     PSGD_TYPED(psgd__la_product)
#define la_outer       PSGD_TYPED(psgd__la_outer)
#define la_row_sums    PSGD_TYPED(psgd__la_row_sums)
#define la_spread_bias PSGD_TYPED(psgd__la_spread_bias)

/* Elementwise, split over threads: see the kernels of the same names. */
void la_apply(la_function f, real leak, int64_t n, const real *x, real *y);
void la_slope(la_function f, real leak, int64_t n, const real *y, const real *d, bool add, real *z);
void la_curve(la_function f, real leak, int64_t n, const real *y, const real *ty, const real *d, const real *td,
              bool add, real *z);
void la_accumulate(int64_t n, real c, const real *x, bool add, real *y);      /* y <- [y +] c x */
void la_multiply(int64_t n, const real *a, const real *b, bool add, real *y); /* y <- [y +] a b, elementwise */

/* Y <- [Y +] W X or W'X; W is rows x columns with leading dimension ld, X and Y have n samples a row. */
void la_product(int64_t rows, int64_t columns, int64_t n, const real *W, int64_t ld, bool transpose, const real *X,
                bool add, real *Y);

/* R <- [R +] A B', A rows x n, B columns x n, R with leading dimension ld. */
void la_outer(int64_t rows, int64_t columns, int64_t n, const real *A, const real *B, bool add, real *R, int64_t ld);

/* r_i <- [r_i +] the sum of row i of A, r_i being ld apart. */
void la_row_sums(int64_t rows, int64_t n, const real *A, bool add, real *r, int64_t ld);

/* Y_i <- [Y_i +] b_i for all samples, b_i being ld apart. */
void la_spread_bias(int64_t rows, int64_t n, const real *b, int64_t ld, bool add, real *Y);

#endif
