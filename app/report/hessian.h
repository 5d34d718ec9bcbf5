/* A small, ill-conditioned, indefinite Hessian with the structure that layers of networks have. */
#ifndef PSGD_REPORT_HESSIAN_H
#define PSGD_REPORT_HESSIAN_H

#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

enum { HESSIAN_OUT = 6, HESSIAN_IN = 9, HESSIAN_SIZE = HESSIAN_OUT * HESSIAN_IN };

/* H <- the Hessian in Theta (HESSIAN_OUT x HESSIAN_IN, the last column is the bias) of
 *     mean over (x, y) of |W tanh(Theta x) - y|^2 / 2
 * at a random Theta. The features x have scales from 0.16 to 6.3, lean on one another and do not have mean 0; y is far
 * from what the layer says, so that some curvature is negative. */
void psgd__hessian_make(uint64_t seed, double *H);

/* The eigenvalues of the symmetric matrix M [HESSIAN_SIZE, HESSIAN_SIZE], ascending. M is destroyed. */
psgd_status psgd__hessian_eigenvalues(double *M, double *values);

#endif
