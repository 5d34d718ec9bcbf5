/* Choices between rows of samples, and their sums: what pooling is made of. */
#include "la/kernel/kernel.h"

void KERNEL(take_larger)(int64_t n, int32_t k, const real *restrict x, int32_t *restrict taken, real *restrict y)
{
    for (int64_t j = 0; j < n; j++) {
        bool better = !(x[j] <= y[j]);
        taken[j] = better ? k : taken[j];
        y[j] = better ? x[j] : y[j];
    }
}

void KERNEL(take_where)(int64_t n, int32_t k, const int32_t *restrict taken, const real *restrict x, real *restrict y)
{
    for (int64_t j = 0; j < n; j++) y[j] = taken[j] == k ? x[j] : y[j];
}

void KERNEL(give_where)(int64_t n, int32_t k, const int32_t *restrict taken, const real *restrict d, bool add,
                        real *restrict z)
{
    if (add) {
        for (int64_t j = 0; j < n; j++) z[j] += taken[j] == k ? d[j] : 0;
    } else {
        for (int64_t j = 0; j < n; j++) z[j] = taken[j] == k ? d[j] : 0;
    }
}

double KERNEL(sum)(int64_t n, const real *x)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += (double)x[j];
    return sum;
}
