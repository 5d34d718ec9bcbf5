#ifndef PSGD_LA_KERNEL_MIX_H
#define PSGD_LA_KERNEL_MIX_H

#include "la/kernel/kernel.h"

void KERNEL(mix)(const la_mix *mix, int64_t n, const real *A, const real *B, real *Y);
void KERNEL(cross)(const la_cross *cross, int64_t n, const real *A, const real *B, real *R);

#endif
