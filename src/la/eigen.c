#include "la/eigen.h"

#include <lapacke.h>
#include <omp.h>

enum { ALONE = 512 }; /* the size below which threads cost more than they bring: dsyev starts them for every column */

bool psgd__la_eigenvalues(int64_t n, double *M, double *values, double *work)
{
    lapack_int size = (lapack_int)n, room = (lapack_int)psgd__la_eigen_work(n);
    int threads = omp_get_max_threads();
    if (n < ALONE) omp_set_num_threads(1);
    bool done = LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'N', 'U', size, M, size, values, work, room) == 0;
    omp_set_num_threads(threads);
    return done;
}

bool psgd__la_tridiagonal(int n, double *diagonal, double *beside, double *vectors, double *work)
{
    return LAPACKE_dstev_work(LAPACK_COL_MAJOR, 'V', n, diagonal, beside, vectors, n, work) == 0;
}
