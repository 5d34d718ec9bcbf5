/* The whitened pair: from the caller's (v, h) to A = Qh and B = Q^-T v in the workspace, safe to square. */
#ifndef PSGD_PRECOND_UPDATE_WHITENED_H
#define PSGD_PRECOND_UPDATE_WHITENED_H

#include <math.h>

#include "group/group.h"
#include "precond/precond.h"

#define whitened_pair       PSGD_TYPED(whitened_pair)
#define whiten_load         PSGD_TYPED(psgd__whiten_load)
#define whiten_norms        PSGD_TYPED(psgd__whiten_norms)
#define whiten_images       PSGD_TYPED(psgd__whiten_images)
#define whiten_level        PSGD_TYPED(psgd__whiten_level)
#define whiten_keep_average PSGD_TYPED(psgd__whiten_keep_average)

typedef struct whitened_pair {
    group_pair pair;
    int h_exponent, v_exponent; /* the copies are h 2^-h_exponent and v 2^-v_exponent */
    double h_max, v_max;        /* max |h| and max |v| of what was copied, before that scaling */
    double h_norm, v_norm;      /* after whiten_norms */
    int exponent;               /* after whiten_level: pair has A 2^-exponent and B 2^-exponent */
} whitened_pair;

/* 2^(2 exponent): the square of a value over the square of its scaled copy. Clamped to 2^+-1000, so that products and
 * quotients with it stay finite. */
static inline double whiten_weight(int exponent)
{
    return ldexp(1, exponent > 500 ? 1000 : exponent < -500 ? -1000 : 2 * exponent);
}

/* Copies h, with the damping and average that the criterion asks for, and v: count pairs of n elements, which is the
 * size of the tensor or, with row-sparse gradients, of its present rows. Refuses what is not finite. */
psgd_status whiten_load(psgd_precond *self, int64_t n, int64_t count, const real *v, const real *h, whitened_pair *w);

/* Frobenius norms of h and v from their copies; where there is no v, sqrt(n), its expectation. */
void whiten_norms(int64_t n, whitened_pair *w);

/* A <- Qh, B <- Q^-T v, then whiten_level. */
psgd_status whiten_images(psgd_precond *self, int64_t count, whitened_pair *w);

/* Scales A and B, which are images already, by a common power of two where their squares would overflow or underflow;
 * other is the size of what was integrated out. */
psgd_status whiten_level(int64_t n, double other, whitened_pair *w);

/* s <- the moving average with h in it, where unbiased. */
void whiten_keep_average(psgd_precond *self, const real *h);

#endif
