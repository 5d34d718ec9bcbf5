/* A kron of two modes whose factors are diagonal, the second perhaps with a last column or row: scan and its like.
 *
 * One pass over (v, h) gives the sums that both R are made of, one pass over x gives Px; A and B are never stored. */
#ifndef PSGD_GROUP_COMPOSITE_KRON_BORDERED_H
#define PSGD_GROUP_COMPOSITE_KRON_BORDERED_H

#include "group/group.h"

#define kron_bordered         PSGD_TYPED(kron_bordered)
#define kron_bordered_reserve PSGD_TYPED(psgd__kron_bordered_reserve)
#define kron_bordered_fused   PSGD_TYPED(psgd__kron_bordered_fused)
#define kron_bordered_apply   PSGD_TYPED(psgd__kron_bordered_apply)

typedef struct kron_bordered {
    bool possible;
    int64_t factors, scratch, sums; /* in the workspace: reals, reals, doubles */
} kron_bordered;

/* Says whether the factors are of this kind and reserves what the passes need. */
void kron_bordered_reserve(const group *self, workspace *work, kron_bordered *bordered);

void kron_bordered_fused(const group *self, const kron_bordered *bordered, const group_raw *raw, real *R,
                         group_fused *units);
void kron_bordered_apply(const group *self, const kron_bordered *bordered, real alpha, const real *x, bool add,
                         real *y);

#endif
