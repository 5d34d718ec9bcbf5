/* A kron of two modes whose factors are diagonal, the second perhaps with a last column or row: scan and its like.
 *
 * One pass over (v, h) gives the sums that both R are made of, one pass over x gives Px; A and B are never stored. */
#ifndef PSGD_GROUP_COMPOSITE_KRON_BORDERED_H
#define PSGD_GROUP_COMPOSITE_KRON_BORDERED_H

#include "group/group.h"

#define kron_thin         PSGD_TYPED(kron_thin)
#define kron_thin_reserve PSGD_TYPED(psgd__kron_thin_reserve)
#define kron_thin_capture PSGD_TYPED(psgd__kron_thin_capture)
#define kron_thin_apply   PSGD_TYPED(psgd__kron_thin_apply)

typedef struct kron_thin {
    bool possible;
    int64_t factors, scratch, sums; /* in the workspace: reals, reals, doubles */
} kron_thin;

/* Says whether the factors are of this kind and reserves what the passes need. */
void kron_thin_reserve(const group *self, workspace *work, kron_thin *thin);

void kron_thin_capture(const group *self, const kron_thin *thin, const group_raw *raw, real *R, group_captured *units);
void kron_thin_apply(const group *self, const kron_thin *thin, real alpha, const real *x, bool add, real *y);

#endif
