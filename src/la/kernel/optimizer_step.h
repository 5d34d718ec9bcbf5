#ifndef PSGD_LA_KERNEL_OPTIMIZER_STEP_H
#define PSGD_LA_KERNEL_OPTIMIZER_STEP_H

#include "la/kernel/kernel.h"

void KERNEL(step_plain)(int64_t n, const step_rule *r, const real *g, const real *x, real *out);
void KERNEL(step_momentum)(int64_t n, const step_rule *r, const real *g, real *u, const real *x, real *out);
void KERNEL(step_rms)(int64_t n, const step_rule *r, const real *g, real *s, const real *x, real *out);
void KERNEL(step_adam)(int64_t n, const step_rule *r, const real *g, real *u, real *s, const real *x, real *out);

#endif
