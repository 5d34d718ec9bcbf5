/* A kron of two bordered diagonal factors, the first without a border: scan and its like.
 *
 * One pass over (v, h) gives the sums that both R are made of, one pass over x gives Px; A and B are never stored. An
 * update of an m x n matrix reads v and h once and takes O(mn). */
#ifndef PSGD_GROUP_COMPOSITE_KRON_BORDERED_H
#define PSGD_GROUP_COMPOSITE_KRON_BORDERED_H

#include "group/group.h"

#define kron                  PSGD_TYPED(kron)
#define kron_bordered_reserve PSGD_TYPED(psgd__kron_bordered_reserve)
#define kron_bordered_project PSGD_TYPED(psgd__kron_bordered_project)
#define kron_bordered_apply   PSGD_TYPED(psgd__kron_bordered_apply)

typedef struct kron {
    group base;
    int64_t factors, scratch, sums; /* in the workspace where the factors are bordered: reals, reals, doubles */
} kron;

/* Whether the factors are of this kind; reserves what the passes need. */
bool kron_bordered_reserve(kron *self);

/* See group_fused. */
void kron_bordered_project(const group *self, const group_raw *raw, real *R, group_r *units);
void kron_bordered_apply(const group *self, const real *x, real *y);

#endif
