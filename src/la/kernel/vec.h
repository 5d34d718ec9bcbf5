/* Vectors as wide as the instruction set's, in GCC's portable vector types, for the kernels that live on keeping a tile
 * of sums in registers. Loads and stores need no alignment beyond that of one number. */
#ifndef PSGD_LA_KERNEL_VEC_H
#define PSGD_LA_KERNEL_VEC_H

#include "la/kernel/kernel.h"

#if defined(__AVX512F__)
enum { VEC_BYTES = 64, TILE_COLUMNS = 4, CROSS_COLUMNS = 6 };
#elif defined(__AVX__)
enum { VEC_BYTES = 32, TILE_COLUMNS = 2, CROSS_COLUMNS = 2 };
#else
enum { VEC_BYTES = 16, TILE_COLUMNS = 2, CROSS_COLUMNS = 2 };
#endif
enum { LANES = VEC_BYTES / sizeof(real), TILE_ROWS = 6, CROSS_ROWS = 4 };

typedef real vec __attribute__((vector_size(VEC_BYTES), aligned(sizeof(real)), may_alias));

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE vec vec_load(const real *x)
{
    return *(const vec *)x;
}

ALWAYS_INLINE void vec_store(real *x, vec v)
{
    *(vec *)x = v;
}

/* The sum of the lanes, by halves. */
ALWAYS_INLINE real vec_sum(vec v)
{
    real lane[LANES];
    vec_store(lane, v);
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++) lane[l] += lane[l + width];
    }
    return lane[0];
}

#endif
