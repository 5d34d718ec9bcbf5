#ifndef PSGD_LA_KERNEL_POOLING_H
#define PSGD_LA_KERNEL_POOLING_H

#include "la/kernel/kernel.h"

void KERNEL(take_larger)(int64_t n, int32_t k, const real *x, int32_t *taken, real *y);
void KERNEL(take_where)(int64_t n, int32_t k, const int32_t *taken, const real *x, real *y);
void KERNEL(give_where)(int64_t n, int32_t k, const int32_t *taken, const real *d, bool add, real *z);
double KERNEL(sum)(int64_t n, const real *x);

#endif
