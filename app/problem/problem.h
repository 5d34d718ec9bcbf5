/* Test functions: sums of squares with published starting points and minima (More, Garbow and Hillstrom, "Testing
 * unconstrained optimization software", ACM TOMS 7, 1981), with gradients and exact Hessian-vector products.
 *
 * A problem is a residual and its derivatives, written once and compiled for real and for complex numbers. f and g come
 * from the real ones; Hv is the imaginary part of g(x + i e v) / e, which for a tiny e is exact to rounding. */
#ifndef PSGD_PROBLEM_PROBLEM_H
#define PSGD_PROBLEM_PROBLEM_H

#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

enum { PROBLEM_MINIMA = 5 };

typedef struct problem problem;

typedef struct problem_minimum {
    int n;        /* negative: for every n */
    double value; /* negative: the formula of the problem, see problem.c */
} problem_minimum;

typedef struct problem_kind {
    const char *name, *title;
    int number;           /* in the paper; 0: not from there */
    int n, multiple, min; /* usual size; sizes are multiples of this, at least min; multiple 0: the usual one only */
    int max;              /* 0: any */
    int m, m_of_n;        /* residuals: m + m_of_n n */
    void (*start)(int n, double *x);
    problem_minimum minima[PROBLEM_MINIMA]; /* ends with n = 0 where there are fewer */
} problem_kind;

int psgd__problem_count(void);
const problem_kind *psgd__problem_kind(int index);

/* n = 0: the usual size. */
psgd_status psgd__problem_create(const psgd_context *context, const char *name, int64_t n, problem **created);
void psgd__problem_free(problem *self);

int64_t psgd__problem_size(const problem *self);
void psgd__problem_start(const problem *self, double *x);

/* The published minima for this size, at most PROBLEM_MINIMA; returns how many. */
int psgd__problem_minima(const problem *self, double values[PROBLEM_MINIMA]);

/* gradient may be NULL. Both return 0, so that they fit psgd_function. */
int psgd__problem_evaluate(void *self, int64_t n, const double *x, double *value, double *gradient);
int psgd__problem_product(void *self, int64_t n, const double *x, const double *v, double *h);

/* Hv with the value and the gradient, which come with it. */
int psgd__problem_hessian(void *self, int64_t n, const double *x, const double *v, double *value, double *gradient,
                          double *h);

/* The residuals, whose squares sum to the value, and products with their Jacobian; they fit psgd_residuals. */
int64_t psgd__problem_residual_count(const problem *self);
int psgd__problem_residuals(void *self, int64_t n, const double *x, double *r);
int psgd__problem_jacobian(void *self, int64_t n, const double *x, const double *v, double *y); /* y <- Jv */
int psgd__problem_jacobian_transposed(void *self, int64_t n, const double *x, const double *u,
                                      double *z); /* z <- J'u */

#endif
