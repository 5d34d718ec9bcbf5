/* The base B of a secant P. */
#ifndef PSGD_OPTIM_SECANT_BASE_H
#define PSGD_OPTIM_SECANT_BASE_H

#include "optim/secant.h"

/* Of a pair: ||v||, ||h||, |v'h|. */
typedef struct secant_sizes {
    double v, h, vh;
} secant_sizes;

void psgd__secant_base_reset(secant *s);
void psgd__secant_base_apply(secant *s, double *x); /* x <- B x */

/* A pair of a solve, and the end of the solve. */
void psgd__secant_base_learn(secant *s, const double *v, const double *h, const secant_sizes *sizes);
psgd_status psgd__secant_base_commit(secant *s);

psgd_status psgd__secant_base_step(secant *s, double *v, double *h); /* a pair of a step, which is overwritten */

/* gamma such that h'Bh = v'h = curvature; false, and nothing has changed, where that is no number. */
bool psgd__secant_base_scale(secant *s, const secant_pair *pair, double curvature);

#endif
