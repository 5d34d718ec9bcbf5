/* The sparse LU family's two files share this. */
#ifndef PSGD_GROUP_FAMILY_SPLU_H
#define PSGD_GROUP_FAMILY_SPLU_H

#include "group/group.h"
#include "la/array/columns.h"

#define splu            PSGD_TYPED(splu)
#define splu_half       PSGD_TYPED(splu_half)
#define splu_job        PSGD_TYPED(splu_job)
#define psgd__splu_fit  PSGD_TYPED(psgd__splu_fit)
#define psgd__splu_pass PSGD_TYPED(psgd__splu_pass)

/* L or U' (both lower): [T 0; X' diag(d)], T r x r row-major, X r x m with rows of length m = n - r, d [m]. */
typedef struct splu_half {
    real *T, *X, *d;
} splu_half;

typedef struct splu {
    group base;
    int64_t r, m;
    splu_half L, U;
    real *turn; /* [1] updates since L and U were balanced: state besides them */
    /* Places in the workspace. */
    int64_t fibre;  /* [n] a fibre that is not contiguous */
    int64_t images; /* [pairs][4][n] for the fit */
    int64_t sums;   /* of sweeps */
    int64_t small;  /* doubles, [pairs][4][2][r] */
} splu;

/* What one pass over a half H = [T 0; X' D] does to a vector [x1; x2], x1 in double:
 *   forward, down   x <- H x     x1 <- T x1,             x2 <- D x2 + X'(old x1)
 *   forward, up     x <- H'x     x1 <- T'x1 + X x2,      x2 <- D x2
 *   backward, down  x <- H^-1 x  x1 <- T^-1 x1,          x2 <- D^-1 (x2 - X'(new x1))
 *   backward, up    x <- H^-T x  x2 <- D^-1 x2,          x1 <- T^-T (x1 - X x2)      */
typedef struct splu_job {
    real *x2;
    double *x1, *old; /* [r] each; old is scratch */
    bool backward, up;
} splu_job;

/* Several vectors in one pass over the panel of a half. */
void psgd__splu_pass(const splu *self, const splu_half *half, splu_job *jobs, int count);

void psgd__splu_fit(group *self, const group_pair *pair, group_fit *how);

#endif
