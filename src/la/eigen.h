/* Eigenvalues of symmetric matrices, for those who look at spectra; not part of any update. */
#ifndef PSGD_LA_EIGEN_H
#define PSGD_LA_EIGEN_H

#include <stdbool.h>
#include <stdint.h>

/* The eigenvalues of the symmetric n x n matrix M, ascending; M is destroyed, work has psgd__la_eigen_work(n) numbers.
 * false where the iteration does not converge. */
bool psgd__la_eigenvalues(int64_t n, double *M, double *values, double *work);

static inline int64_t psgd__la_eigen_work(int64_t n)
{
    return 34 * n;
}

#endif
