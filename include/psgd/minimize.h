/* Minimise a smooth function of n real variables, in double precision.
 *
 * The search direction is -Q'Q g, with Q on a matrix Lie group, fitted to Hessian-vector products at the current point;
 * a line search chooses the step length. The defaults need no tuning. */
#ifndef PSGD_MINIMIZE_H
#define PSGD_MINIMIZE_H

#include <stdint.h>

#include <psgd/context.h>
#include <psgd/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The function of the caller. Both callbacks return 0; anything else ends the minimisation. */
typedef struct psgd_function {
    /* f and its gradient at x; gradient is NULL if only f is needed. */
    int (*evaluate)(void *data, int64_t n, const double *x, double *value, double *gradient);
    /* h <- H v at x. NULL: central finite differences of the gradient are used. */
    int (*product)(void *data, int64_t n, const double *x, const double *v, double *h);
    void *data;
} psgd_function;

typedef enum psgd_outcome {
    PSGD_CONVERGED = 0,           /* the gradient norm reached the option tolerance */
    PSGD_STALLED,                 /* no lower point was found, neither along -Pg nor along -g */
    PSGD_MAX_ITERATIONS_REACHED,  /* option max-iterations */
    PSGD_MAX_EVALUATIONS_REACHED, /* option max-evaluations */
    PSGD_STOPPED                  /* by the progress callback */
} psgd_outcome;

typedef struct psgd_result {
    psgd_outcome outcome;
    double value, gradient_norm;
    int64_t iterations, evaluations, gradients, products; /* gradients is how many of the
                                                             evaluations computed one */
} psgd_result;

const char *psgd_outcome_text(psgd_outcome outcome); /* a short description, never NULL */

/* Called after every iteration; a result other than 0 stops. */
typedef int (*psgd_progress)(void *data, const psgd_result *now, int64_t n, const double *x);

/* x is the starting point and becomes the best point found. options, progress and result may be NULL. PSGD_OK means
 * that the minimisation ran; result->outcome says how it ended. On failure x is the last good point, or unchanged. */
psgd_status psgd_minimize(const psgd_context *context, int64_t n, double *x, const psgd_function *function,
                          const psgd_options *options, psgd_progress progress, void *progress_data,
                          psgd_result *result);

/* The options, from 0 (psgd/options.h). */
int psgd_minimize_option(int index, psgd_option_info *option);

#ifdef __cplusplus
}
#endif
#endif
