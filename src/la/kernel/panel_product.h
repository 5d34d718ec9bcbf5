#ifndef PSGD_LA_KERNEL_PANEL_PRODUCT_H
#define PSGD_LA_KERNEL_PANEL_PRODUCT_H

#include "la/kernel/kernel.h"

void KERNEL(tiles)(const la_tiles *tiles, real *C);
void KERNEL(panel_exp)(int64_t rows, const real *Z, real *max, real *sum, real *E);
void KERNEL(panel_spread)(int64_t rows, const real *Z, const real *E, real *spread, real *T);
void KERNEL(panel_weigh)(int64_t rows, const real *factor, const real *E, real *D);
void KERNEL(panel_weigh_both)(int64_t rows, const la_weights *by, const real *E, const real *T, real *D, real *tD);

#endif
