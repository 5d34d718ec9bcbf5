#include "la/eigen.h"

#include <lapacke.h>

bool psgd__la_eigenvalues(int64_t n, double *M, double *values, double *work)
{
    lapack_int size = (lapack_int)n;
    return LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'N', 'U', size, M, size, values, work,
                              (lapack_int)psgd__la_eigen_work(n)) == 0;
}
