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

/* One minimisation. Vectors are [n], lists of pairs are [pairs][n]. */
typedef struct minimizer {
    const psgd_context *context;
    const psgd_function *function;
    minimize_settings settings;
    int64_t n, pairs;
    bool whole;            /* pairs = n: the products give all of H, and further pairs follow from them */
    psgd_precond *precond; /* NULL where Q is small */
    double *Q, *spare;     /* [n][n] upper triangular, and room for two more, where small; else NULL */
    bool fitted;
    double *memory;
    double *x, *g, *d, *x_next, *g_next, *probe;
    double *H, *v, *h, *a, *b, *power; /* H: [n][n] where whole */
    psgd_result now;                   /* its value and gradient_norm are those of x and g */
} minimizer;

static inline double minimize_dot(int64_t n, const double *x, const double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* A fit ends where the diagonal of (QHQ')^2 is this near to 1. */
#define MINIMIZE_FITTED 1e-3

/* Updates of a triangular Q of few unknowns from all of H: see minimize_small.c. */
typedef struct small_fit {
    int64_t n, updates;
    double caution; /* what c is multiplied by */
    const double *H;
} small_fit;

double psgd__minimizer_small_step(double norm, int64_t update); /* c where ||M|| is at most norm */
void psgd__minimizer_small_fit(const small_fit *fit, double *Q, double *spare);

psgd_status psgd__minimizer_evaluate(minimizer *self, const double *x, double *value, double *gradient);

/* Fits Q at the current point. */
psgd_status psgd__minimizer_fit(minimizer *self);

/* Q <- c I with c such that P is as large as one over the curvature along the gradient. */
psgd_status psgd__minimizer_start_again(minimizer *self);

#endif
