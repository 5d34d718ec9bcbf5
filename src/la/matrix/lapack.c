/* LAPACK on square matrices. A row-major matrix is its transpose in column-major; inverse and singular values do not
 * mind. */
#include "la/matrix/blas.h"

#include <float.h>
#include <lapacke.h>
#include <math.h>

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

bool la_sym_power(int64_t n, real *M, double power, real *to, real *work)
{
    int m = (int)n;
    real *values = work, *room = work + n, *scaled = work + 35 * n;
    if (LAPACK(syev)(LAPACK_COL_MAJOR, 'V', 'U', m, M, m, values, room, 34 * m) != 0) return false;
    double max = (double)values[n - 1], min = max * (double)REAL_EPSILON;
    if (!(max > 0) || !isfinite(max)) return false;

    /* In row-major M is V', one eigenvector a row: M^p = V diag(values^p) V'. */
    for (int64_t i = 0; i < n; i++) {
        real factor = (real)pow(fmax((double)values[i], min), power);
        for (int64_t j = 0; j < n; j++) scaled[i * n + j] = factor * M[i * n + j];
    }
    la_gemm(true, false, n, n, n, 1, M, n, scaled, n, 0, to, n);
    return true;
}
