/* The parts of psgd_minimize. */
#ifndef PSGD_OPTIM_MINIMIZE_H
#define PSGD_OPTIM_MINIMIZE_H

#include <stdbool.h>

#include "core/options.h"
#include <psgd/minimize.h>
#include <psgd/precond.h>

typedef struct minimize_settings {
    const char *group;
    double tolerance, lr;
    int64_t max_iterations, max_evaluations, pairs, updates, seed;
    bool noisy;
} minimize_settings;

extern const option_row psgd__minimize_options[];
extern const int psgd__minimize_option_count;

/* One minimisation. Vectors are [n], lists of pairs are [pairs][n]. */
typedef struct minimizer {
    const psgd_context *context;
    const psgd_function *function;
    minimize_settings settings;
    int64_t n, pairs;
    bool whole; /* pairs = n: the products give all of H, and further pairs follow from them */
    psgd_precond *precond;
    bool fitted;
    double *memory;
    double *x, *g, *d, *x_next, *g_next, *probe;
    double *H, *v, *h, *a, *b, *power; /* H: [n][n] where whole */
    double value, norm;
    psgd_result now;
} minimizer;

psgd_status psgd__minimizer_evaluate(minimizer *self, const double *x, double *value, double *gradient);

/* Fits Q at the current point. far: the last step had to be cut short, so Q moves with care. */
psgd_status psgd__minimizer_fit(minimizer *self);

/* Q <- c I with c such that P is as large as one over the curvature along the gradient. */
psgd_status psgd__minimizer_start_again(minimizer *self);

#endif
