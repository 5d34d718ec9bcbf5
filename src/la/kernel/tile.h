/* The inner loop of the products: a tile of C, rows x columns vectors, stays in registers while all of the depth passes
 * by; A comes one element at a time from where it lies, B in whole vectors. rows and columns are constants wherever
 * this is called, so that every loop over the tile is unrolled. */
#ifndef PSGD_LA_KERNEL_TILE_H
#define PSGD_LA_KERNEL_TILE_H

#include "la/kernel/vec.h"

enum { TILE_VECS = 4 }; /* in a row of a tile, at most */

/* sum_i += A_i b: one k. group rows of A share a pointer, row i is at a[i / group] + i % group row; row i of the tile
 * is at sum + i columns. */
ALWAYS_INLINE void tile_step(int rows, int columns, int group, const real *const *a, int64_t row, const real *b,
                             vec *sum)
{
    vec x[TILE_VECS];
#pragma GCC unroll 4
    for (int c = 0; c < columns; c++) x[c] = vec_load(b + c * LANES);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        real w = a[i / group][i % group * row];
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) sum[i * columns + c] += w * x[c];
    }
}

ALWAYS_INLINE void tile_fill(int rows, int columns, real value, vec *sum)
{
#pragma GCC unroll 24
    for (int i = 0; i < rows * columns; i++) sum[i] = (vec){0} + value;
}

/* sum_i += sum_k A[i row + k column] B[k ld ..], k < depth. Three rows share a pointer: an address has one index, which
 * may be doubled, and twelve pointers would not fit the registers. */
ALWAYS_INLINE void tile_product(int rows, int columns, int64_t depth, const real *A, int64_t row, int64_t column,
                                const real *B, int64_t ld, vec *sum)
{
    const real *a[(BLOCK_ROWS + 2) / 3];
#pragma GCC unroll 4
    for (int g = 0; g < (rows + 2) / 3; g++) a[g] = A + 3 * g * row;
    for (int64_t k = 0; k < depth; k++) {
        tile_step(rows, columns, 3, a, row, B, sum);
#pragma GCC unroll 4
        for (int g = 0; g < (rows + 2) / 3; g++) a[g] += column;
        B += ld;
    }
}

#endif
