#ifndef PSGD_LA_KERNEL_NORMAL_H
#define PSGD_LA_KERNEL_NORMAL_H

#include "la/kernel/kernel.h"

void KERNEL(normal)(const rng_stream *stream, int64_t tile, int64_t count, real *x);

#endif
