#ifndef PSGD_LA_KERNEL_ACTIVATE_H
#define PSGD_LA_KERNEL_ACTIVATE_H

#include "la/kernel/kernel.h"

void KERNEL(apply)(la_function f, real leak, int64_t n, const real *x, real *y);
void KERNEL(slope)(la_function f, real leak, int64_t n, const real *y, const real *d, bool add, real *z);
void KERNEL(curve)(la_function f, real leak, int64_t n, const real *y, const real *ty, const real *d, const real *td,
                   bool add, real *z);
void KERNEL(exp_minus)(int64_t n, const real *x, const real *m, real *y);
void KERNEL(lstm_forward)(int64_t n, const la_lstm *cell);
void KERNEL(lstm_tangent)(int64_t n, const la_lstm *cell);
void KERNEL(lstm_backward)(int64_t n, const la_lstm *cell);
void KERNEL(lstm_tangent_backward)(int64_t n, const la_lstm *cell);

#endif
