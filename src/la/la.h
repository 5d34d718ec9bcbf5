/* Numerical work on views: every hot loop and the thread pool of the library are in this folder.
 *
 * Results do not depend on the number of threads: work is split by fixed sizes and sums are combined in a fixed order.
 */
#ifndef PSGD_LA_LA_H
#define PSGD_LA_LA_H

#include <stdbool.h>

#include "la/view.h"

#define la_scale            PSGD_TYPED(psgd__la_scale)
#define la_axpy             PSGD_TYPED(psgd__la_axpy)
#define la_dot              PSGD_TYPED(psgd__la_dot)
#define la_max_abs          PSGD_TYPED(psgd__la_max_abs)
#define la_copy             PSGD_TYPED(psgd__la_copy)
#define la_sum_difference   PSGD_TYPED(psgd__la_sum_difference)
#define la_copy_max         PSGD_TYPED(psgd__la_copy_max)
#define la_damp_max         PSGD_TYPED(psgd__la_damp_max)
#define la_view_scale       PSGD_TYPED(psgd__la_view_scale)
#define la_view_energy      PSGD_TYPED(psgd__la_view_energy)
#define la_view_norm        PSGD_TYPED(psgd__la_view_norm)
#define la_view_copy        PSGD_TYPED(psgd__la_view_copy)
#define la_view_max         PSGD_TYPED(psgd__la_view_max)
#define la_scale_rows       PSGD_TYPED(psgd__la_scale_rows)
#define la_divide_rows      PSGD_TYPED(psgd__la_divide_rows)
#define la_row_energies     PSGD_TYPED(psgd__la_row_energies)
#define la_row_products     PSGD_TYPED(psgd__la_row_products)
#define la_add_row          PSGD_TYPED(psgd__la_add_row)
#define la_dot_row          PSGD_TYPED(psgd__la_dot_row)
#define la_below_one        PSGD_TYPED(psgd__la_below_one)
#define la_retract_diagonal PSGD_TYPED(psgd__la_retract_diagonal)
#define la_cross_mul        PSGD_TYPED(psgd__la_cross_mul)
#define la_determinant      PSGD_TYPED(psgd__la_determinant)
#define la_cross_solve      PSGD_TYPED(psgd__la_cross_solve)
#define la_mirror_products  PSGD_TYPED(psgd__la_mirror_products)

/* Plain arrays. */
void la_scale(int64_t n, real c, real *x);               /* x <- c x */
void la_axpy(int64_t n, real c, const real *x, real *y); /* y <- y + c x */
double la_dot(int64_t n, const real *x, const real *y);  /* x'y */
real la_max_abs(int64_t n, const real *x);               /* max |x|, infinite or NaN where any x is */
void la_copy(int64_t n, const real *x, real *y);         /* y <- x */
void la_sum_difference(int64_t n, real *x, real *y);     /* (x, y) <- (x - y, x + y) */
real la_copy_max(int64_t n, const real *x, real *y);     /* y <- x; max |x| */
real la_damp_max(int64_t n, const real *x, real c, const real *v, real *y); /* y <- x + c v; max |y| */

/* Views. "Row i" is entry i of every fibre. */
void la_view_scale(view X, real c);         /* X <- c X */
double la_view_energy(view X);              /* sum of X^2 */
double la_view_norm(view X, int e);         /* ||2^-e X||_F, also where squares of X overflow or underflow */
real la_view_max(view X);                   /* max |X|; 0 for an empty view */
void la_view_copy(view from, view to);      /* to <- from, the same sizes */
void la_scale_rows(view X, const real *q);  /* row i <- q_i row i */
void la_divide_rows(view X, const real *q); /* row i <- row i / q_i */
void la_row_energies(view A, view B, int sign, bool accumulate, real *r); /* r_i <- sum A_i^2 + sign sum B_i^2 */
/* r_i <- <A_i, a> + sign <B_i, b>, where a and b are views of one row (n = 1) over the same fibres */
void la_row_products(view A, view a, view B, view b, int sign, bool accumulate, real *r);
void la_add_row(view X, real scale, const real *c, view x); /* row i <- row i + scale c_i x, x one row */
void la_dot_row(view X, const real *c, real scale, view x); /* x <- x + scale sum_i c_i row i */

bool la_below_one(int64_t n, real c, const real *r);                 /* c r_i < 1 for all i */
void la_retract_diagonal(int64_t n, real c, const real *r, real *q); /* q_i <- (1 - c r_i) q_i, at least LA_MIN */

/* A diagonal that must stay positive is at least LA_MIN, so that its inverse can still be multiplied. Entries that are
 * bounded one by one are at most LA_MAX as well. */
#ifdef PSGD_REAL_F64
#define LA_MIN 0x1p-400
#define LA_MAX 0x1p400
#else
#define LA_MIN 0x1p-60f
#define LA_MAX 0x1p60f
#endif

/* X <- (diag(d) + antidiag(e)) X or its transpose, X <- the inverse of that times X; r_i <- <A_i, A_j> + sign <B_i,
 * B_j> with j = n - 1 - i. */
void la_cross_mul(view X, const real *d, const real *e, bool transpose);
double la_determinant(double a, double b, double c, double d); /* ad - bc, without cancellation */
void la_cross_solve(view X, const real *d, const real *e, bool transpose);
void la_mirror_products(view A, view B, int sign, bool accumulate, real *r);

#endif
