#ifndef PSGD_LA_KERNEL_WINOGRAD_H
#define PSGD_LA_KERNEL_WINOGRAD_H

#include "la/kernel/kernel.h"

void KERNEL(points)(la_point_map kind, int64_t window, int64_t n, const real *const *from, real start, bool add,
                    real *const *to);

#endif
