#ifndef PSGD_LA_KERNEL_PACKED_TRIANGLE_H
#define PSGD_LA_KERNEL_PACKED_TRIANGLE_H

#include "la/kernel/kernel.h"

void KERNEL(row_form)(int64_t n, real b, const real *q, const real *x, real *y, double *dot);
void KERNEL(rows_form)(int64_t n, const real *b, const real *const *q, const real *x, real *y, double *dot);
void KERNEL(row_retract)(int64_t n, real c, real a, real b, real *q, real *s, real *t);
void KERNEL(rows_retract)(int64_t n, real c, const real *a, const real *b, real *const *q, real *s, real *t);

#endif
