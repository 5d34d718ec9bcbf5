/* The two compilations of the formulas. number is the place in the registry. */
#ifndef PSGD_PROBLEM_EVALUATE_H
#define PSGD_PROBLEM_EVALUATE_H

#include <complex.h>

/* value and g <- those of problem number at x; at and d are scratch for a row. g may be NULL. */
void psgd__problem_real(int number, int n, int m, const double *x, double *value, double *g, int *at, double *d);
void psgd__problem_complex(int number, int n, int m, const double complex *x, double complex *value, double complex *g,
                           int *at, double complex *d);

/* What to compute of all residuals; NULL is left out. */
typedef struct problem_rows {
    double *r;           /* [m] */
    const double *v, *u; /* [n], [m] */
    double *y, *z;       /* Jv [m], J'u [n] */
} problem_rows;

void psgd__problem_rows(int number, int n, int m, const double *x, const problem_rows *rows, int *at, double *d);

#endif
