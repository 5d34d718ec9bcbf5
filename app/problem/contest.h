/* One function, any method: value against iterations, evaluations and time. */
#ifndef PSGD_PROBLEM_CONTEST_H
#define PSGD_PROBLEM_CONTEST_H

#include <stdbool.h>

#include <psgd/psgd.h>

typedef struct contest {
    const psgd_function *function;
    /* NULL, or value, gradient and Hv in one call. */
    int (*hessian)(void *data, int64_t n, const double *x, const double *v, double *value, double *gradient, double *h);
    int64_t n;
    const double *start;
    int64_t iterations;
    double tolerance; /* ends at a gradient of this norm, times 1 + |f| where f no longer changes by much of its size */
} contest;

/* After an iteration, 0 being the start; seconds are those of the method and the evaluations that it asked for. */
typedef struct contest_mark {
    int64_t iteration, evaluations, products;
    double value, gradient_norm, seconds;
    bool converged;
    bool unbounded;  /* f went below -1e20 (1 + |f at the start|) */
    bool diverged;   /* the last mark of a run that psgd_diverged has ended, or too many skipped steps in a row */
    int64_t skipped; /* steps; why is the reason of the last of them */
    char why[160];
    const char *ending; /* psgd_minimize: how it ended, once it has; else NULL */
} contest_mark;

typedef void (*contest_watch)(void *data, const contest_mark *now);

/* Method names are those of psgd_method_name, "minimize" for psgd_minimize, and three that the paper's figure has: "gd"
 * for sgd, "psgd-newton" and "psgd-fisher" for psgd with a criterion. x (may be NULL) receives the point that was
 * reached. */
psgd_status psgd__contest_run(const contest *c, const char *method, psgd_options *options, contest_watch watch,
                              void *data, double *x, contest_mark *last);

/* Whether options of a method are read by psgd_minimize (else by psgd_optimizer_create). */
bool psgd__contest_is_minimize(const char *method);

#endif
