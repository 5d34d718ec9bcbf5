/* One update of the low-rank family while it is made. */
#ifndef PSGD_GROUP_FAMILY_LRA_FIT_H
#define PSGD_GROUP_FAMILY_LRA_FIT_H

#include "group/family/lra.h"

#define lra_fitting          PSGD_TYPED(lra_fitting)
#define psgd__lra_panel_size PSGD_TYPED(psgd__lra_panel_size)

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
