#include "core/dtype.h"
#include "group/family/small_matrix.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void swap_rows(int64_t r, double *M, int64_t i, int64_t j)
{
    for (int64_t k = 0; k < r && i != j; k++) {
        double keep = M[i * r + k];
        M[i * r + k] = M[j * r + k];
        M[j * r + k] = keep;
    }
}

static double largest(int64_t count, const double *x)
{
    double max = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs(x[i]) <= max)) max = fabs(x[i]);
    }
    return max;
}

bool small_invert(int64_t r, const double *M, double *inverse, double *work)
{
    memcpy(work, M, (size_t)(r * r) * sizeof(double));
    memset(inverse, 0, (size_t)(r * r) * sizeof(double));
    for (int64_t i = 0; i < r; i++) inverse[i * r + i] = 1;
    for (int64_t c = 0; c < r; c++) {
        int64_t best = c;
        for (int64_t i = c + 1; i < r; i++) best = fabs(work[i * r + c]) > fabs(work[best * r + c]) ? i : best;
        double pivot = work[best * r + c];
        if (!(fabs(pivot) > 0) || !isfinite(pivot)) return false;
        swap_rows(r, work, c, best);
        swap_rows(r, inverse, c, best);
        for (int64_t k = 0; k < r; k++) {
            work[c * r + k] /= pivot;
            inverse[c * r + k] /= pivot;
        }
        for (int64_t i = 0; i < r; i++) {
            double factor = work[i * r + c];
            for (int64_t k = 0; i != c && factor != 0 && k < r; k++) {
                work[i * r + k] -= factor * work[c * r + k];
                inverse[i * r + k] -= factor * inverse[c * r + k];
            }
        }
    }
    return largest(r * r, M) * largest(r * r, inverse) * (double)REAL_EPSILON < 0.05;
}

bool small_positive(int64_t r, double *M)
{
    for (int64_t i = 0; i < r; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = M[i * r + j];
            for (int64_t k = 0; k < j; k++) sum -= M[i * r + k] * M[j * r + k];
            if (i == j && !(sum > 0)) return false;
            M[i * r + j] = i == j ? sqrt(sum) : sum / M[j * r + j];
        }
    }
    return true;
}

void small_mul(int64_t r, const double *M, bool transpose, const double *x, double *y)
{
    for (int64_t i = 0; i < r; i++) {
        y[i] = 0;
        for (int64_t j = 0; j < r; j++) y[i] += (transpose ? M[j * r + i] : M[i * r + j]) * x[j];
    }
}
