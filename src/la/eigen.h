/* Eigenvalues of tridiagonal matrices, for diagnostics; not part of any update. */
#ifndef PSGD_LA_EIGEN_H
#define PSGD_LA_EIGEN_H

#include <stdbool.h>

/* Eigenvalues, ascending, into diagonal, and eigenvectors, one after the other, of the symmetric tridiagonal n x n
 * matrix with this diagonal and these n - 1 elements next to it. work has n elements. false where the iteration does
 * not converge. */
bool psgd__la_tridiagonal(int n, double *diagonal, const double *off_diagonal, double *vectors, double *work);

#endif
