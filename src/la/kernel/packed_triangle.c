/* Rows of a triangle, one or four at a time: four share the loads and stores of what runs along them. */
#include "la/kernel/kernel.h"

void KERNEL(row_form)(int64_t n, real b, const real *restrict q, const real *restrict x, real *restrict y, double *dot)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        sum += q[j] * x[j];
        y[j] -= b * q[j];
    }
    *dot += (double)sum;
}

void KERNEL(rows_form)(int64_t n, const real *b, const real *const *q, const real *restrict x, real *restrict y,
                       double *dot)
{
    const real *restrict q0 = q[0], *restrict q1 = q[1], *restrict q2 = q[2], *restrict q3 = q[3];
    real b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3], s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t j = 0; j < n; j++) {
        s0 += q0[j] * x[j];
        s1 += q1[j] * x[j];
        s2 += q2[j] * x[j];
        s3 += q3[j] * x[j];
        y[j] -= b0 * q0[j] + b1 * q1[j] + b2 * q2[j] + b3 * q3[j];
    }
    dot[0] += (double)s0;
    dot[1] += (double)s1;
    dot[2] += (double)s2;
    dot[3] += (double)s3;
}

void KERNEL(row_retract)(int64_t n, real c, real a, real b, real *restrict q, real *restrict s, real *restrict t)
{
    real ca = c * a, cb = c * b;
    for (int64_t j = 0; j < n; j++) {
        s[j] += a * q[j];
        t[j] += b * q[j];
        q[j] -= ca * s[j] - cb * t[j];
    }
}

void KERNEL(rows_retract)(int64_t n, real c, const real *a, const real *b, real *const *q, real *restrict s,
                          real *restrict t)
{
    real *restrict q0 = q[0], *restrict q1 = q[1], *restrict q2 = q[2], *restrict q3 = q[3];
    real a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3];
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        real u = s[j] + a3 * q3[j], w = t[j] + b3 * q3[j];
        q3[j] -= c * (a3 * u - b3 * w);
        u += a2 * q2[j], w += b2 * q2[j];
        q2[j] -= c * (a2 * u - b2 * w);
        u += a1 * q1[j], w += b1 * q1[j];
        q1[j] -= c * (a1 * u - b1 * w);
        u += a0 * q0[j], w += b0 * q0[j];
        q0[j] -= c * (a0 * u - b0 * w);
        s[j] = u;
        t[j] = w;
    }
}
