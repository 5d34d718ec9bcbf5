/* Minimise half the sum of squares of m residuals of n unknowns, f = ||r(x)||^2 / 2, in double precision.
 *
 * As psgd_minimize, with Gauss-Newton products: h = J'(Jv), which is never negative. Nothing of the size m x n is
 * stored unless the caller's own functions do. */
#ifndef PSGD_LEAST_SQUARES_H
#define PSGD_LEAST_SQUARES_H

#include <psgd/minimize.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The caller's residuals. All callbacks return 0; anything else ends the minimisation with PSGD_ERR_CALLBACK. */
typedef struct psgd_residuals {
    int64_t m;
    int (*residuals)(void *data, int64_t n, const double *x, double *r); /* r [m] */
    /* y <- J v, v [n], y [m], and z <- J'u, u [m], z [n], J the Jacobian at x. Both NULL: J comes from central
     * differences, 2n residuals for each new x, and is stored. */
    int (*product)(void *data, int64_t n, const double *x, const double *v, double *y);
    int (*transposed)(void *data, int64_t n, const double *x, const double *u, double *z);
    void *data;
    const double *lower, *upper; /* as in psgd_function */
} psgd_residuals;

/* options, progress and result are those of psgd_minimize; result->value is ||r||^2 / 2, evaluations count calls of
 * residuals other than for differences, gradients calls of transposed for a gradient, products pairs of both. */
psgd_status psgd_least_squares(const psgd_context *context, int64_t n, double *x, const psgd_residuals *residuals,
                               const psgd_options *options, psgd_progress progress, void *progress_data,
                               psgd_result *result);

#ifdef __cplusplus
}
#endif
#endif
