#ifndef PSGD_LA_KERNEL_SMALL_BLAS_H
#define PSGD_LA_KERNEL_SMALL_BLAS_H

#include "la/kernel/kernel.h"

void KERNEL(panel_load)(int64_t n, int64_t width, const real *x, int64_t entry, int64_t fibre, real *P);
void KERNEL(panel_store)(int64_t n, int64_t width, const real *P, real *x, int64_t entry, int64_t fibre);
void KERNEL(tri_mul)(const la_tri *t, int64_t width, real *P);
void KERNEL(tri_retract)(const la_tri *t, int64_t width, real c, real *P);
void KERNEL(tri_solve)(const la_tri *t, int64_t width, real *P);
void KERNEL(gather)(int64_t count, int64_t n, const real *x, int64_t entry, int64_t fibre, real *X);
void KERNEL(im2col)(const la_im2col *t);

#endif
