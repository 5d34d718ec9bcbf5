/* LAPACK on square matrices. A row-major matrix is its transpose in column-major; inverse and singular values do not
 * mind. */
#include "la/blas.h"

#include <lapacke.h>

#ifdef PSGD_REAL_F64
#define LAPACK(name) LAPACKE_d##name##_work
#else
#define LAPACK(name) LAPACKE_s##name##_work
#endif

bool la_invert(int64_t n, real *M, int *pivots, real *work)
{
    int m = (int)n;
    if (LAPACK(getrf)(LAPACK_COL_MAJOR, m, m, M, m, pivots) != 0) return false;
    return LAPACK(getri)(LAPACK_COL_MAJOR, m, M, m, pivots, work, m * 32) == 0;
}

bool la_svd_range(int64_t n, real *M, real *work, double *smallest, double *largest)
{
    int m = (int)n;
    real *values = work, none;
    int room = (int)(la_svd_work(n) - n);
    if (LAPACK(gesvd)(LAPACK_COL_MAJOR, 'N', 'N', m, m, M, m, values, &none, 1, &none, 1, work + n, room) != 0) {
        return false;
    }
    *largest = (double)values[0];
    *smallest = (double)values[n - 1];
    return true;
}
