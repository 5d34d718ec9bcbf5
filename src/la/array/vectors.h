/* Several vectors at once: what limited-memory methods spend their time in. Each stretch of y is read once for all of
 * the vectors, and results have the same bits on any number of threads. */
#ifndef PSGD_LA_ARRAY_VECTORS_H
#define PSGD_LA_ARRAY_VECTORS_H

#include "core/dtype.h"

#include <stdint.h>

enum { LA_VECTORS_MAX = 32 };

/* dot_i <- x_i'y; y <- y + sum_i c_i x_i, for count <= LA_VECTORS_MAX vectors of n elements. */
void psgd__la_dots_f32(int count, int64_t n, const float *const *x, const float *y, double *dot);
void psgd__la_dots_f64(int count, int64_t n, const double *const *x, const double *y, double *dot);
void psgd__la_combine_f32(int count, int64_t n, const double *c, const float *const *x, float *y);
void psgd__la_combine_f64(int count, int64_t n, const double *c, const double *const *x, double *y);

#define la_dots    PSGD_TYPED(psgd__la_dots)
#define la_combine PSGD_TYPED(psgd__la_combine)

#endif
