/* A strided view of the n-long fibres of a tensor.
 *
 * A fibre runs along one mode of a tensor in C order: entry i of fibre (o, j) is x[o * pitch + i * inner + j], with
 * o < outer and j < inner. inner is the product of the later modes, so entries of a fibre are inner apart; pitch is n *
 * inner for a whole tensor and more for a slice of one. A batch of slices adds a last level: blocks of all that,
 * block_pitch apart. This form is closed under what composites need: slices along the mode, splitting the mode, and
 * several tensors at once. */
#ifndef PSGD_LA_VIEW_H
#define PSGD_LA_VIEW_H

#include <stdint.h>

#include "core/dtype.h"

#define view PSGD_TYPED(view)

typedef struct view {
    real *x; /* NULL: an empty view, where that is said to be allowed */
    int64_t n, inner, outer, pitch, blocks, block_pitch;
} view;

/* outer vectors of n numbers, one after the other. */
static inline view view_rows(real *x, int64_t n, int64_t outer)
{
    return (view){.x = x, .n = n, .inner = 1, .outer = outer, .pitch = n, .blocks = 1};
}

/* The columns of an n x inner matrix. */
static inline view view_columns(real *x, int64_t n, int64_t inner)
{
    return (view){.x = x, .n = n, .inner = inner, .outer = 1, .pitch = n * inner, .blocks = 1};
}

/* Entries from .. from + n - 1 of each fibre. */
static inline view view_slice(view X, int64_t from, int64_t n)
{
    X.x = X.x ? X.x + from * X.inner : NULL;
    X.n = n;
    return X;
}

static inline int64_t view_fibres(view X)
{
    return X.blocks * X.outer * X.inner;
}

/* Block b alone. */
static inline view view_block(view X, int64_t b)
{
    X.x = X.x ? X.x + b * X.block_pitch : NULL;
    X.blocks = 1;
    return X;
}

/* The same sizes and strides over other memory. */
static inline view view_over(view X, real *x)
{
    X.x = x;
    return X;
}

#endif
