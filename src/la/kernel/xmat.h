#ifndef PSGD_LA_KERNEL_XMAT_H
#define PSGD_LA_KERNEL_XMAT_H

#include "la/kernel/kernel.h"

void KERNEL(cross_fused)(int64_t n, const la_cross_pairs *p, real damping, real sign, real *R, bool stream,
                         real *largest, real *spectral);
void KERNEL(cross_renew)(int64_t n, const la_cross_pairs *p, real damping, real c, real *Q);
void KERNEL(cross_retract)(int64_t n, const la_cross_pairs *p, real c, const real *R, real *Q);
void KERNEL(cross_apply)(int64_t n, const la_cross_pairs *p, real alpha, const real *x, bool add, real *y, bool stream);

#endif
