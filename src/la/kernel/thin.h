#ifndef PSGD_LA_KERNEL_THIN_H
#define PSGD_LA_KERNEL_THIN_H

#include "la/kernel/kernel.h"

double KERNEL(row_dot)(int64_t n, const real *x, const real *y);
void KERNEL(rows_dot)(int64_t n, const real *e, const real *const *rows, double *dot);
void KERNEL(rows_capture)(int64_t n, la_rows *rows, const la_columns *columns);
double KERNEL(row_apply)(int64_t n, real alpha, const real *d, const real *x, real t, const real *f, bool add, real *y,
                         bool stream);

#endif
