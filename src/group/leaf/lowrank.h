/* An R that is the sum of a few signed outer products, R = sum_k s_k x_k x_k', kept as the vectors themselves.
 *
 * That is what a group with one or a few fibres has (A and B are then only a few columns), and what makes triangular
 * and dense groups O(n^2) there. The vectors are contiguous, in the order of the fibre or reversed. */
#ifndef PSGD_GROUP_LEAF_LOWRANK_H
#define PSGD_GROUP_LEAF_LOWRANK_H

#include <stdbool.h>

#include "la/view.h"

enum { LOWRANK_MAX_COLUMNS = 4, LOWRANK_MAX = 2 * LOWRANK_MAX_COLUMNS };

/* Layout of R: the count, LOWRANK_MAX signs, then the vectors. */
static inline int64_t lowrank_size(int64_t n, int64_t columns)
{
    return 1 + LOWRANK_MAX + 2 * columns * n;
}

static inline int lowrank_count(const real *R)
{
    return (int)R[0];
}

static inline real lowrank_sign(const real *R, int k)
{
    return R[1 + k];
}

static inline const real *lowrank_vector(const real *R, int64_t n, int k)
{
    return R + 1 + LOWRANK_MAX + k * n;
}

#define lowrank_add    PSGD_TYPED(psgd__lowrank_add)
#define lowrank_max    PSGD_TYPED(psgd__lowrank_max)
#define lowrank_row    PSGD_TYPED(psgd__lowrank_row)
#define lowrank_borrow PSGD_TYPED(psgd__lowrank_borrow)
#define lowrank_return PSGD_TYPED(psgd__lowrank_return)

/* The fibres of X, each with this sign, after those that R has. Start with R[0] = 0. */
void lowrank_add(real *R, view X, int sign, bool reversed);

/* max |R|; the triangle of a symmetric matrix has the same maximum as all of it. scratch has n times one more
 * than the count. */
real lowrank_max(const real *R, int64_t n, real *scratch);

/* row_j <- R_ij for j >= from. */
void lowrank_row(const real *R, int64_t n, int64_t i, int64_t from, real *row);

/* Fibre f of X as contiguous memory: the fibre itself where it is contiguous and in order, else a copy in scratch [n].
 * lowrank_return stores a copy back. */
real *lowrank_borrow(view X, int64_t f, bool reversed, real *scratch);
void lowrank_return(view X, int64_t f, bool reversed, const real *x);

#endif
