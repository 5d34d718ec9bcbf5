/* From the caller's pairs (v, h) to A = Qh and B = Q^-T v in the workspace. */
#ifndef PSGD_PRECOND_UPDATE_WHITENED_H
#define PSGD_PRECOND_UPDATE_WHITENED_H

#include <math.h>

#include "group/group.h"
#include "precond/precond.h"

#define formed            PSGD_TYPED(formed)
#define form_pairs        PSGD_TYPED(psgd__form_pairs)
#define form_norms        PSGD_TYPED(psgd__form_norms)
#define form_images       PSGD_TYPED(psgd__form_images)
#define form_level        PSGD_TYPED(psgd__form_level)
#define form_keep_average PSGD_TYPED(psgd__form_keep_average)

typedef struct formed {
    group_pair pair;
    int h_exponent, v_exponent; /* the copies are h 2^-h_exponent and v 2^-v_exponent */
    double h_max, v_max;        /* largest entries of what was copied, before that */
    double h_norm, v_norm;      /* after form_norms */
    int exponent;               /* after form_images: A and B are the true ones times 2^-exponent */
} formed;

/* What squares of true numbers are beside those of the same times 2^-exponent. Weights past 2^1000 and 2^-1000 stay
 * there, so that products and quotients with them are numbers still. */
static inline double form_weight(int exponent)
{
    return ldexp(1, exponent > 500 ? 1000 : exponent < -500 ? -1000 : 2 * exponent);
}

/* Copies h, with damping and average as the criterion wants them, and v: count pairs of n numbers, which is the size of
 * the tensor but where some of its rows are meant. Refuses what is not finite. */
psgd_status form_pairs(psgd_precond *self, int64_t n, int64_t count, const real *v, const real *h, formed *f);

/* Frobenius norms of the copies, in true units; where there is no v, of n numbers whose variance is 1. */
void form_norms(int64_t n, formed *f);

/* Multiplies by Q and Q^-T and brings A and B to a common scale. */
psgd_status form_images(psgd_precond *self, int64_t count, formed *f);

/* Brings A and B, which are images already, to a common scale; other is the size of what was integrated out. */
psgd_status form_level(int64_t n, double other, formed *f);

/* s <- the moving average with h in it, where unbiased. */
void form_keep_average(psgd_precond *self, const real *h);

#endif
