/* All invertible matrices: what the files of this group share. */
#ifndef PSGD_GROUP_LEAF_DENSE_H
#define PSGD_GROUP_LEAF_DENSE_H

#include "group/group.h"

#define dense                 PSGD_TYPED(dense)
#define dense_mul_in_place    PSGD_TYPED(psgd__dense_mul_in_place)
#define dense_inverse_of      PSGD_TYPED(psgd__dense_inverse_of)
#define dense_inside          PSGD_TYPED(psgd__dense_inside)
#define dense_retract_inverse PSGD_TYPED(psgd__dense_retract_inverse)
#define dense_retract_left    PSGD_TYPED(psgd__dense_retract_left)
#define dense_retract_right   PSGD_TYPED(psgd__dense_retract_right)
#define dense_retract_both    PSGD_TYPED(psgd__dense_retract_both)
#define dense_project_both    PSGD_TYPED(psgd__dense_project_both)
#define dense_symmetrise      PSGD_TYPED(psgd__dense_symmetrise)
#define dense_skew_part       PSGD_TYPED(psgd__dense_skew_part)
#define dense_rotate          PSGD_TYPED(psgd__dense_rotate)
#define dense_r_norm          PSGD_TYPED(psgd__dense_r_norm)

/* Fibres that an in-place product takes at a time, and from side DENSE_LARGE on, where BLAS is faster than our kernels;
 * la_invert needs a panel of the smaller size. */
enum { DENSE_PANEL = 32, DENSE_LARGE = 512, DENSE_WIDE = 512 };

typedef struct dense {
    group base;
    bool few;            /* R is low-rank */
    double fresh;        /* residual of the inverse when it came from LU */
    int64_t width;       /* fibres of the panel */
    int64_t panel, next; /* in the workspace: n * width; n * n for (I - c R)^-1, LU, or the old Q */
    int64_t probe;       /* in the workspace: n, the vector that the residual is computed for */
    int64_t estimate;    /* in the workspace: la_norm_work(n) */
    int64_t turned;      /* in the workspace, where there is no inverse: n * n for SS of a rotation */
    real *q, *inverse;   /* inverse is NULL where updates need none */
    int *pivots;
} dense;

static inline const dense *as_dense(const group *self)
{
    return (const dense *)self;
}

/* X <- M X or M'X in place. */
void dense_mul_in_place(const group *self, const real *M, bool transpose, view X);

/* dense_inverse.c */
const real *dense_inverse_of(const dense *d);
bool dense_inside(const group *self, real c, const real *R);
void dense_retract_inverse(group *self, real c, real *R); /* Q and its inverse */

/* dense_rules.c: ops and fused paths of group.h */
void dense_retract_left(group *self, real c, real *R); /* Q alone */
void dense_retract_right(group *self, real c, real *R);
void dense_retract_both(group *self, real c, real *R);
void dense_project_both(const group *self, view A, view B, real *R, real *S);
void dense_symmetrise(group *self);
double dense_skew_part(const group *self, const rng_stream *draw, double *x, double *y);
void dense_rotate(group *self, double norm, double t);
double dense_r_norm(const group *self, const real *R, const rng_stream *draw);

#endif
