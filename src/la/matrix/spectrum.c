/* What matrices are asked for beyond products. */
#include "la/matrix/blas.h"
#include "la/matrix/serial.h"

#include <float.h>
#include <math.h>

bool la_svd_range(int64_t n, real *M, real *work, double *smallest, double *largest)
{
    if (!serial_singular(n, M, work, work + n)) return false;
    *largest = (double)work[0];
    *smallest = (double)work[n - 1];
    return true;
}

bool la_sym_power(int64_t n, real *M, double power, real *to, real *work)
{
    real *values = work, *scaled = work + 35 * n;
    if (!serial_sym_eigen(n, M, values, work + n)) return false;
    double max = (double)values[n - 1], min = max * (double)REAL_EPSILON;
    if (!(max > 0) || !isfinite(max)) return false;

    /* M is V', one eigenvector a row: M^p = V diag(values^p) V'. */
    for (int64_t i = 0; i < n; i++) {
        real factor = (real)pow(fmax((double)values[i], min), power);
        for (int64_t j = 0; j < n; j++) scaled[i * n + j] = factor * M[i * n + j];
    }
    la_gemm(true, false, n, n, n, 1, M, n, scaled, n, 0, to, n);
    return true;
}
