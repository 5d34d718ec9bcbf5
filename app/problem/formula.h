/* Included by real.c and complex.c: what a residual is written in.
 *
 * A residual is r_i(x), i from 1, with its derivatives put into a sparse row: put(J, j, d) for dr_i/dx_j, j from 1.
 * X(j) is x_j. Functions are those of tgmath.h. */
#ifndef PSGD_PROBLEM_FORMULA_H
#define PSGD_PROBLEM_FORMULA_H

#include <tgmath.h>

#include "problem/evaluate.h"

#ifdef PROBLEM_COMPLEX
typedef double complex scalar;
#define RE(x)    creal(x)
#define EVALUATE psgd__problem_complex
#else
typedef double scalar;
#define RE(x)    (x)
#define EVALUATE psgd__problem_real
#endif

#define X(j) x[(j)-1]

typedef struct row {
    int n, m; /* unknowns, residuals */
    int count;
    int *at; /* from 0 */
    scalar *d;
} row;

typedef scalar (*residual)(int i, const scalar *x, row *J);

static inline void put(row *J, int j, scalar d)
{
    J->at[J->count] = j - 1;
    J->d[J->count++] = d;
}

#endif
