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

/* Eigenvalues, ascending, into diagonal, and eigenvectors, one after the other, of the tridiagonal n x n matrix with
 * this diagonal and beside it n - 1 numbers, which are destroyed. work has 2n numbers. */
bool psgd__la_tridiagonal(int n, double *diagonal, double *beside, double *vectors, double *work);

#endif
