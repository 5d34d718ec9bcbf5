/* The triangular group's two files share this. */
#ifndef PSGD_GROUP_LEAF_TRI_H
#define PSGD_GROUP_LEAF_TRI_H

#include "group/group.h"
#include "group/leaf/lowrank.h"

#define tri PSGD_TYPED(tri)

typedef struct tri {
    group base;
    bool lower;  /* as it acts, t() included */
    bool packed; /* rows of the upper triangle one after the other; a lower one is kept reversed in both directions */
    int64_t scratch; /* in the workspace */
} tri;

#define psgd__tri_packed_apply     PSGD_TYPED(psgd__tri_packed_apply)
#define psgd__tri_packed_square    PSGD_TYPED(psgd__tri_packed_square)
#define psgd__tri_packed_square_to PSGD_TYPED(psgd__tri_packed_square_to)
#define psgd__tri_packed_whiten    PSGD_TYPED(psgd__tri_packed_whiten)
#define psgd__tri_packed_r_mul     PSGD_TYPED(psgd__tri_packed_r_mul)
#define psgd__tri_packed_inside    PSGD_TYPED(psgd__tri_packed_inside)
#define psgd__tri_packed_retract   PSGD_TYPED(psgd__tri_packed_retract)

/* Row i of a packed triangle, from its diagonal entry to its end. */
static inline real *psgd__tri_row(const tri *t, int64_t i)
{
    return t->base.q + i * t->base.n - i * (i - 1) / 2;
}

void psgd__tri_packed_apply(const tri *t, group_act act, view X);
void psgd__tri_packed_square(const tri *t, view X);                    /* X <- Q'QX */
void psgd__tri_packed_square_to(const tri *t, const real *x, real *y); /* y <- Q'Qx; x may be y */
void psgd__tri_packed_whiten(const tri *t, view A, view B);            /* A <- QA and B <- Q^-T B */
void psgd__tri_packed_r_mul(const tri *t, const real *R, bool transpose, view X);
bool psgd__tri_packed_inside(const tri *t, real c, const real *R);
void psgd__tri_packed_retract(tri *t, real c, const real *R);

#endif
