#ifndef PSGD_LA_KERNEL_ELEMENTWISE_H
#define PSGD_LA_KERNEL_ELEMENTWISE_H

#include "la/kernel/kernel.h"

void KERNEL(scale)(int64_t n, real c, real *x);
void KERNEL(mul)(int64_t n, const real *q, real *x);
void KERNEL(div)(int64_t n, const real *q, real *x);
void KERNEL(axpy)(int64_t n, real c, const real *x, real *y);
double KERNEL(dot)(int64_t n, const real *x, const real *y);
real KERNEL(max_abs)(int64_t n, const real *x);
real KERNEL(copy_max)(int64_t n, const real *x, real *y);
real KERNEL(damp_max)(int64_t n, const real *x, real c, const real *v, real *y);
void KERNEL(add_squares)(int64_t n, double c, const real *x, double *sum);
void KERNEL(add_products)(int64_t n, double c, const real *x, real y, double *sum);

#endif
