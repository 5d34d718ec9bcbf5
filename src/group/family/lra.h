/* The low-rank family's files share this. */
#ifndef PSGD_GROUP_FAMILY_LRA_H
#define PSGD_GROUP_FAMILY_LRA_H

#include "group/group.h"

#define lra                   PSGD_TYPED(lra)
#define psgd__lra_fit         PSGD_TYPED(psgd__lra_fit)
#define psgd__lra_matrix      PSGD_TYPED(psgd__lra_matrix)
#define psgd__lra_keep_matrix PSGD_TYPED(psgd__lra_keep_matrix)
#define psgd__lra_begin       PSGD_TYPED(psgd__lra_begin)

enum { LRA_BLOCK = 16 }; /* columns of V'U computed at a time */

/* State besides d, U and V: the updates so far, and M = I + V'U, each entry as the sum of two values. */
enum { LRA_TURN, LRA_M };

typedef struct lra {
    group base;
    int64_t r;
    real *d, *u, *v, *memory; /* [n], [r][n], [r][n] */
    /* Places in the workspace. */
    int64_t fibre;    /* [n] a fibre that is not contiguous */
    int64_t gradient; /* [n] of d */
    int64_t rows;     /* [2][n] for max */
    int64_t sums;     /* of sweeps */
    int64_t small;    /* doubles: M, its inverse, two more r x r, then projections [pairs][4][r] and three vectors */
    const real *whitened; /* the A whose projections are in the workspace, or NULL */
} lra;

/* Projections of pair k: V'a, U'a, V'b, U'b. */
enum { VA, UA, VB, UB };
static inline double *lra_projection(const lra *self, int64_t k, int which)
{
    double *small = psgd__work_at(self->base.work, self->small);
    return small + 4 * self->r * self->r + (4 * k + which) * self->r;
}

/* Q <- scale I: U = 0, V random signs. */
void psgd__lra_begin(lra *self, double scale);

/* M <- what is kept, inverse <- M^-1, both in the workspace. */
void psgd__lra_matrix(const lra *self, double **M, double **inverse);
void psgd__lra_keep_matrix(lra *self, const double *M);

void psgd__lra_fit(group *self, const group_pair *pair, group_fit *how);

#endif
