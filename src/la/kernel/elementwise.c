/* Streaming loops over one or two arrays, and their reductions. */
#include "la/kernel/kernel.h"
#include "la/kernel/bits.h"

void KERNEL(scale)(int64_t n, real c, real *restrict x)
{
    for (int64_t i = 0; i < n; i++) x[i] *= c;
}

void KERNEL(mul)(int64_t n, const real *restrict q, real *restrict x)
{
    for (int64_t i = 0; i < n; i++) x[i] *= q[i];
}

void KERNEL(div)(int64_t n, const real *restrict q, real *restrict x)
{
    for (int64_t i = 0; i < n; i++) x[i] /= q[i];
}

void KERNEL(axpy)(int64_t n, real c, const real *restrict x, real *restrict y)
{
    for (int64_t i = 0; i < n; i++) y[i] += c * x[i];
}

double KERNEL(dot)(int64_t n, const real *restrict x, const real *restrict y)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

real KERNEL(max_abs)(int64_t n, const real *x)
{
    bits max = 0;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++) {
        bits b = abs_bits(x[i]);
        max = b > max ? b : max;
    }
    return from_bits(max);
}

real KERNEL(copy_max)(int64_t n, const real *restrict x, real *restrict y)
{
    bits max = 0;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++) {
        bits b = abs_bits(x[i]);
        max = b > max ? b : max;
        y[i] = x[i];
    }
    return from_bits(max);
}

real KERNEL(damp_max)(int64_t n, const real *restrict x, real c, const real *restrict v, real *restrict y)
{
    bits max = 0;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] + c * v[i];
        bits b = abs_bits(y[i]);
        max = b > max ? b : max;
    }
    return from_bits(max);
}

void KERNEL(add_squares)(int64_t n, double c, const real *restrict x, double *restrict sum)
{
    for (int64_t i = 0; i < n; i++) sum[i] += c * ((double)x[i] * (double)x[i]);
}

void KERNEL(add_products)(int64_t n, double c, const real *restrict x, real y, double *restrict sum)
{
    double cy = c * (double)y;
    for (int64_t i = 0; i < n; i++) sum[i] += cy * (double)x[i];
}
