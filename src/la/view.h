/* A strided view of the n-long fibres of a tensor.
 *
 * A fibre runs along one axis of a tensor in C order: entry i of fibre (o, j) is x[o * ld + i * inner + j], with o <
 * outer and j < inner. inner is the product of the later dimensions, so entries of a fibre are inner apart; ld is n *
 * inner for a whole tensor and more for a slice of one. Splitting the axis of a slice adds a level: blocks of all that,
 * evenly spaced, and blocks of blocks. This form is closed under what composites need: slices along the axis, splitting
 * it, and several tensors at once. */
#ifndef PSGD_LA_VIEW_H
#define PSGD_LA_VIEW_H

#include <stdint.h>

#include "core/dtype.h"

#define view PSGD_TYPED(view)

enum { VIEW_LEVELS = 5 }; /* a kron in a sum adds one, and the parser lets only four stand below one another */

typedef struct view {
    real *x; /* NULL: an empty view, where that is said to be allowed */
    int64_t n, inner, outer, ld;
    int64_t blocks; /* the product of the counts */
    int levels;
    int64_t count[VIEW_LEVELS], spacing[VIEW_LEVELS];
} view;

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* outer vectors of n elements, one after the other. */
static inline view view_rows(real *x, int64_t n, int64_t outer)
{
    return (view){.x = x, .n = n, .inner = 1, .outer = outer, .ld = n, .blocks = 1};
}

/* The columns of an n x inner matrix. */
static inline view view_columns(real *x, int64_t n, int64_t inner)
{
    return (view){.x = x, .n = n, .inner = inner, .outer = 1, .ld = n * inner, .blocks = 1};
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

/* Where block b starts. */
static inline int64_t view_block_at(const view *X, int64_t b)
{
    int64_t at = 0;
    for (int i = 0; i < X->levels; i++) {
        at += b % X->count[i] * X->spacing[i];
        b /= X->count[i];
    }
    return at;
}

/* Block b alone. */
static inline view view_block(view X, int64_t b)
{
    X.x = X.x ? X.x + view_block_at(&X, b) : NULL;
    X.blocks = 1;
    X.levels = 0;
    return X;
}

/* Matrix p of the blocks * outer that the view has, n x inner. */
static inline real *view_matrix(const view *X, int64_t p)
{
    return X->x + (X->levels ? view_block_at(X, p / X->outer) : 0) + p % X->outer * X->ld;
}

/* count of these views, spacing apart. */
static inline view view_repeat(view X, int64_t count, int64_t spacing)
{
    X.count[X.levels] = count;
    X.spacing[X.levels++] = spacing;
    X.blocks *= count;
    return X;
}

/* The same sizes and strides over other memory. */
static inline view view_over(view X, real *x)
{
    X.x = x;
    return X;
}

#endif
