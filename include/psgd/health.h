/* How a preconditioner is doing. */
#ifndef PSGD_HEALTH_H
#define PSGD_HEALTH_H

#include <psgd/precond.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of one factor (psgd_precond_factor_count): the ratio of its largest to its smallest singular value, as
 * psgd_precond_condition has it, and the extremes of its diagonal. The diagonal is NaN where the factor is wider than
 * 512 and not diagonal. Any place may be NULL. */
psgd_status psgd_precond_factor_health(const psgd_precond *precond, int factor, double *condition, double *min_diagonal,
                                       double *max_diagonal);

/* y <- H x for arrays of the number type of the preconditioner; not PSGD_OK: it failed. */
typedef psgd_status (*psgd_hessian)(void *data, const void *x, void *y);

/* The spectrum of PH by a few steps of Lanczos on QHQ', which has the same eigenvalues: values, ascending, approach the
 * extremes first, and weights (may be NULL) are the shares of a random vector on them, which add up to 1. A good fit
 * has them all near 1 or -1. values and weights have room for steps numbers; *count is how many were found, fewer than
 * steps where the space was exhausted. 1 to 64 steps. */
psgd_status psgd_precond_spectrum(psgd_precond *precond, psgd_hessian hessian, void *data, int steps, uint64_t seed,
                                  double *values, double *weights, int *count);

/* A running average of the criterion: average <- decay average + (1 - decay) value, divided by 1 - decay^t, so that it
 * starts without bias. */
typedef struct psgd_health psgd_health;

psgd_status psgd_health_create(const psgd_context *context, double decay, psgd_health **health);
void psgd_health_free(psgd_health *health);

/* Adds a value, such as psgd_precond_criterion gives. One that is not finite is refused. */
psgd_status psgd_health_add(psgd_health *health, double value);
double psgd_health_last(const psgd_health *health);    /* NaN before the first value */
double psgd_health_average(const psgd_health *health); /* NaN before the first value */

#ifdef __cplusplus
}
#endif
#endif
