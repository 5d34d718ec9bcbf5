/* The low-rank family's files share this. */
#ifndef PSGD_GROUP_FAMILY_LRA_H
#define PSGD_GROUP_FAMILY_LRA_H

#include "group/group.h"
#include "la/array/columns.h"

#define lra                   PSGD_TYPED(lra)
#define psgd__lra_fit         PSGD_TYPED(psgd__lra_fit)
#define psgd__lra_matrix      PSGD_TYPED(psgd__lra_matrix)
#define psgd__lra_keep_matrix PSGD_TYPED(psgd__lra_keep_matrix)
#define psgd__lra_reset       PSGD_TYPED(psgd__lra_reset)
#define psgd__lra_project     PSGD_TYPED(psgd__lra_project)
#define lra_fitting           PSGD_TYPED(lra_fitting)
#define psgd__lra_panel_size  PSGD_TYPED(psgd__lra_panel_size)

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
void psgd__lra_reset(group *self, double scale);

/* Adds the four projections of a and b, given at these rows, to sums [4][r]. */
void psgd__lra_project(const lra *self, const la_chunk *rows, const real *a, const real *b, double *sums);

/* M <- what is kept, inverse <- M^-1, both in the workspace. */
void psgd__lra_matrix(const lra *self, double **M, double **inverse);
void psgd__lra_keep_matrix(lra *self, const double *M);

void psgd__lra_fit(group *self, const group_pair *pair, group_fit *how);

/* An update in progress. */
typedef struct lra_fitting {
    lra *self;
    int64_t pairs;
    view A, B;
    bool on_v;               /* V moves in this turn, else U */
    const double *solved;    /* [pairs][2][r]: M^-1 V'a, M^-1 V'b; negative */
    const double *turned;    /* [pairs][2][r]: the coefficients of the moving panel's columns */
    double c_d, c_panel;     /* steps; 0: that part stays */
    const double *sums;      /* [pairs][6]: a'a, b'b, a'b, p'p, q'q, p'q with p = VV'a, q = VV'b (or UU'a, UU'b) */
    double max, both, upper; /* max |g|, max (|h Ph| + |v P^-1 v|), max g over the entries of the gradient g of d */
} lra_fitting;

/* The panel that stays in this turn, [r][n], and the projections of a or b of pair k onto it, [r]. */
static inline const real *lra_fixed_panel(const lra_fitting *f)
{
    return f->on_v ? f->self->u : f->self->v;
}

static inline const double *lra_fixed_projection(const lra_fitting *f, int64_t k, bool of_b)
{
    return lra_projection(f->self, k, f->on_v ? (of_b ? UB : UA) : (of_b ? VB : VA));
}

/* The size of R of the panel that moves, data being an lra_fitting. */
double psgd__lra_panel_size(void *data, group_size which);

#endif
