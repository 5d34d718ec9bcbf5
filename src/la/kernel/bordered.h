#ifndef PSGD_LA_KERNEL_BORDERED_H
#define PSGD_LA_KERNEL_BORDERED_H

#include "la/kernel/kernel.h"

double KERNEL(row_dot)(int64_t n, const real *x, const real *y);
void KERNEL(bordered_fused)(const la_bordered_pass *pass, int64_t from, int64_t to, double *row_sums,
                            const la_column_sums *sums);
double KERNEL(row_apply)(int64_t n, real alpha, const real *d, const real *x, real t, const real *f, bool add, real *y,
                         bool stream);

#endif
