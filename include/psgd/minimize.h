/* Minimise a smooth function of n real variables, from 2 to 10^6 and more, in double precision.
 *
 * Quasi-Newton and truncated Newton steps share one preconditioner P and are chosen by what they gain per evaluation;
 * docs/minimize.md says how. The defaults need no tuning. */
#ifndef PSGD_MINIMIZE_H
#define PSGD_MINIMIZE_H

#include <stdint.h>

#include <psgd/context.h>
#include <psgd/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The function of the caller. Both callbacks return 0; anything else ends the minimisation with PSGD_ERR_CALLBACK. */
typedef struct psgd_function {
    /* f and its gradient at x; gradient is NULL if only f is needed. */
    int (*evaluate)(void *data, int64_t n, const double *x, double *value, double *gradient);
    /* h <- H v at x. NULL: finite differences of the gradient are used. */
    int (*product)(void *data, int64_t n, const double *x, const double *v, double *h);
    void *data;
    const double *lower, *upper; /* [n] each: bounds of the unknowns, entries may be infinite; NULL: none */
} psgd_function;

typedef enum psgd_outcome {
    PSGD_CONVERGED = 0,           /* the gradient norm reached the option tolerance */
    PSGD_STALLED,                 /* no lower point was found, neither along -Pg nor along -g */
    PSGD_MAX_ITERATIONS_REACHED,  /* option max-iterations */
    PSGD_MAX_EVALUATIONS_REACHED, /* option max-evaluations */
    PSGD_STOPPED,                 /* by the progress callback */
    PSGD_GRADIENT_SUSPECT,        /* no minimum was found, and the gradient disagrees with differences of values */
    PSGD_FAILED,                  /* psgd_minimize returned an error; psgd_last_error has the reason */
    PSGD_UNBOUNDED                /* f went below -1e20 (1 + |f at the start|) */
} psgd_outcome;

typedef struct psgd_result {
    psgd_outcome outcome;
    double value, gradient_norm; /* at x; with bounds the norm of x - project(x - g); NaN where nothing is known */
    int64_t iterations, evaluations, gradients, products; /* gradients is how many of the
                                                             evaluations computed one */
} psgd_result;

const char *psgd_outcome_text(psgd_outcome outcome); /* a short description, never NULL */

/* Called after every iteration; a result other than 0 stops. */
typedef int (*psgd_progress)(void *data, const psgd_result *now, int64_t n, const double *x);

/* x is the starting point and becomes the best point found; with bounds it is projected into them first. options,
 * progress and result may be NULL. PSGD_OK means that the minimisation ran; result->outcome says how it ended. result
 * is filled on failure too, and x is then the last good point, or unchanged. */
psgd_status psgd_minimize(const psgd_context *context, int64_t n, double *x, const psgd_function *function,
                          const psgd_options *options, psgd_progress progress, void *progress_data,
                          psgd_result *result);

/* Derivatives compared with central differences, entry by entry. */
typedef struct psgd_derivative_check {
    int64_t compared, wrong;  /* entries; those with an error above PSGD_DERIVATIVE_WRONG */
    int64_t entry;            /* the worst one, -1 where none was compared */
    double given, difference; /* there: what the function says, what differences say */
    double error; /* their distance beyond what differences leave in doubt, relative to the larger of both */
} psgd_derivative_check;

#define PSGD_DERIVATIVE_WRONG 1e-3

/* Checks the gradient at x (four values for each of at most 2000 entries, evenly spread) and the product with one
 * random v (four gradients). gradient and product may be NULL; product stays empty where the function has none. */
psgd_status psgd_check_gradient(const psgd_context *context, int64_t n, const double *x, const psgd_function *function,
                                psgd_derivative_check *gradient, psgd_derivative_check *product);

/* The options, from 0 (psgd/options.h). */
int psgd_minimize_option(int index, psgd_option_info *option);

#ifdef __cplusplus
}
#endif
#endif
