/* Minimise a smooth function in one call.
 *
 * The direction is -Q'Q g, Q on a matrix Lie group and fitted to Hessian-vector products at the current point by the
 * paper's rule; a line search chooses the length. With the defaults nothing needs tuning. Numbers are double. */
#ifndef PSGD_MINIMIZE_H
#define PSGD_MINIMIZE_H

#include <stdint.h>

#include <psgd/context.h>
#include <psgd/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The caller's function of n variables. Both return 0; anything else ends the minimisation. */
typedef struct psgd_function {
    /* f and its gradient at x; gradient is NULL where only f is wanted. */
    int (*evaluate)(void *data, int64_t n, const double *x, double *value, double *gradient);
    /* h <- H v at x. NULL: central differences of gradients are used. */
    int (*product)(void *data, int64_t n, const double *x, const double *v, double *h);
    void *data;
} psgd_function;

typedef enum psgd_outcome {
    PSGD_CONVERGED = 0,           /* the gradient is below the tolerance */
    PSGD_STALLED,                 /* no lower point could be found along the direction, nor along the gradient */
    PSGD_MAX_ITERATIONS_REACHED,  /* option max-iterations */
    PSGD_MAX_EVALUATIONS_REACHED, /* option max-evaluations */
    PSGD_STOPPED                  /* by the progress callback */
} psgd_outcome;

typedef struct psgd_result {
    psgd_outcome outcome;
    double value, gradient_norm;
    int64_t iterations, evaluations, gradients, products; /* calls with a gradient count as both of the former */
} psgd_result;

const char *psgd_outcome_text(psgd_outcome outcome); /* a few words, never NULL */

/* Called after every iteration; anything but 0 stops. */
typedef int (*psgd_progress)(void *data, const psgd_result *now, int64_t n, const double *x);

/* x is the start and becomes the best point found. options, progress and result may be NULL. PSGD_OK means that it ran:
 * result->ending says how it ended. On failure x is the last good point, or as it was. */
psgd_status psgd_minimize(const psgd_context *context, int64_t n, double *x, const psgd_function *function,
                          const psgd_options *options, psgd_progress progress, void *progress_data,
                          psgd_result *result);

/* The options, from 0 (psgd/options.h). */
int psgd_minimize_option(int index, psgd_option_info *option);

/* Help for the options, a line each. Free it with psgd_text_free. */
psgd_status psgd_minimize_options_text(const psgd_context *context, char **help);

#ifdef __cplusplus
}
#endif
#endif
