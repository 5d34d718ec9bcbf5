#ifndef PSGD_LA_KERNEL_FUSED_DIAG_H
#define PSGD_LA_KERNEL_FUSED_DIAG_H

#include "la/kernel/kernel.h"

real KERNEL(diag_fused)(int64_t n, const real *q, const real *h, const real *v, real damping, real sign, real *r,
                        bool stream);
void KERNEL(diag_apply)(int64_t n, real alpha, const real *q, const real *x, bool add, real *y, bool stream);
void KERNEL(retract)(int64_t n, real c, const real *r, real min, real *q);

#endif
