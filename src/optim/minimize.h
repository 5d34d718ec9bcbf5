/* The parts of psgd_minimize. */
#ifndef PSGD_OPTIM_MINIMIZE_H
#define PSGD_OPTIM_MINIMIZE_H

#include <stdbool.h>

#include "core/options.h"
#include "la/array/vectors.h"
#include "optim/secant.h"
#include <psgd/minimize.h>

enum { PRODUCTS_AUTO, PRODUCTS_DIFFERENCES, PRODUCTS_NONE };

typedef struct minimize_settings {
    const char *group, *shape;
    double tolerance;
    int64_t max_iterations, max_evaluations;
    int products; /* PRODUCTS_AUTO, ... */
} minimize_settings;

/* A quasi-Newton step is -Pg; a truncated Newton step solves Hd = -g by conjugate gradients with P. */
typedef enum step_kind { STEP_QUASI, STEP_NEWTON } step_kind;

/* Which kind of step: see schedule.c. */
typedef struct step_choice {
    bool fixed; /* there are no products: quasi-Newton steps only */
    step_kind incumbent;
    int phase;                            /* of a trial: see schedule.c */
    int wait, patience;                   /* blocks of the incumbent until the next trial, and after the next loss */
    double before, challenger;            /* rates */
    double block_cost, block_gain, price; /* of the present block; cost of the last Newton block */
} step_choice;

/* One minimisation. Vectors are [n]. */
typedef struct minimizer {
    const psgd_context *context;
    const psgd_function *function;
    minimize_settings settings;
    int64_t n;
    double *memory;
    double *x, *g, *d, *x_next, *g_next; /* the point, its gradient, the direction, the point that a search looks at */
    double *r, *y, *p, *hp;              /* conjugate gradients; v and h of a step */
    double *mask;                        /* NULL without bounds; 0: the unknown is at a bound and stays there */
    secant P;
    step_choice plan;
    double last_norm, forcing;    /* of the last Newton step */
    double mark_value, mark_norm; /* where there was progress last, and when */
    int64_t mark_cost, mark_iteration;
    double first_value;           /* f at the start */
    double last_gain, last_claim; /* what the last step has lowered f by, and by the gradient at both ends */
    int suspicions;               /* in a row */
    psgd_result now;              /* its value and gradient_norm are those of x and g */
} minimizer;

static inline double minimize_dot(int64_t n, const double *x, const double *y)
{
    double sum;
    psgd__la_dots_f64(1, n, &x, y, &sum);
    return sum;
}

/* Values, gradients and products so far, each as one. */
double psgd__minimizer_cost(const minimizer *self);
bool psgd__minimizer_has_products(const minimizer *self);
int64_t psgd__minimizer_calls_left(const minimizer *self); /* until max-evaluations */

psgd_status psgd__minimizer_evaluate(minimizer *self, const double *x, double *value, double *gradient);
psgd_status psgd__minimizer_product(minimizer *self, const double *v, double *h); /* h <- Hv at x; uses x_next */

/* d <- a step of truncated Newton; P has learned from its products. */
psgd_status psgd__minimizer_newton(minimizer *self);

/* Bounds. */
bool psgd__minimizer_is_bounded(const minimizer *self);
void psgd__minimizer_project(const minimizer *self, double *x);
bool psgd__minimizer_find_free(minimizer *self); /* the mask at x; whether it has changed */
double psgd__minimizer_norm(const minimizer *self, const double *x, const double *g); /* ||x - project(x - g)|| */
double psgd__minimizer_slope_by_size(const minimizer *self); /* sum of |g_i x_i| over unknowns that may move */
double psgd__minimizer_room(const minimizer *self);          /* the largest a with x + a d within the bounds */

void psgd__schedule_start(step_choice *plan, bool products);
step_kind psgd__schedule_next(const step_choice *plan);
bool psgd__schedule_is_trial(const step_choice *plan); /* the next step is of the kind that is not in use */
void psgd__schedule_note(step_choice *plan, double gain, double cost);

/* Whether differences of values contradict the gradient along itself; uses x_next and d. */
psgd_status psgd__minimizer_suspect(minimizer *self, bool *wrong);

/* Iterates until it ends; now.outcome says how. */
psgd_status psgd__minimizer_run(minimizer *self, psgd_progress progress, void *progress_data);

#endif
