/* Diagnostics of a fit: condition and diagonal of the factors, the spectrum of PH, the criterion over time. */
#ifndef PSGD_HEALTH_H
#define PSGD_HEALTH_H

#include <psgd/precond.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The condition number of one factor (see psgd_precond_condition) and the extremes of its diagonal, which are NaN for a
 * factor wider than 512 that is not diagonal. Any result may be NULL. */
psgd_status psgd_precond_factor_health(const psgd_precond *precond, int factor, double *condition, double *min_diagonal,
                                       double *max_diagonal);

/* y <- H x for arrays of the dtype of the preconditioner. Anything but PSGD_OK ends the call that uses it. */
typedef psgd_status (*psgd_hessian)(void *data, const void *x, void *y);

/* The spectrum of PH by 1 to 64 steps of the Lanczos method on QHQ', which has the same eigenvalues. values are Ritz
 * values, ascending; the extremes converge first. weights (may be NULL) are the squared components of a random unit
 * vector on them and add up to 1. After a good fit all values are near 1 or -1. values and weights have room for steps
 * elements; *count is how many were found, fewer than steps if the Krylov space was exhausted. */
psgd_status psgd_precond_spectrum(psgd_precond *precond, psgd_hessian hessian, void *data, int steps, uint64_t seed,
                                  double *values, double *weights, int *count);

/* An exponential moving average of the criterion: average <- decay average + (1 - decay) value, divided by 1 - decay^t
 * to correct the bias of its start. */
typedef struct psgd_health psgd_health;

psgd_status psgd_health_create(const psgd_context *context, double decay, psgd_health **health);
void psgd_health_free(psgd_health *health);

/* Adds a value, of psgd_precond_criterion say. A value that is not finite is refused. */
psgd_status psgd_health_add(psgd_health *health, double value);
double psgd_health_last(const psgd_health *health);    /* NaN before the first value */
double psgd_health_average(const psgd_health *health); /* NaN before the first value */

#ifdef __cplusplus
}
#endif
#endif
