/* Rows of a triangle, one or four at a time: four share the loads and stores of what runs along them. */
#include "la/kernel/kernel.h"

/* Rows are short, or memory sets the pace: what is left over after whole vectors of 64 bytes costs more than they gain.
 */
#if defined(__AVX512F__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=256")
#endif

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

/* q_r is row i + r of Q from column i on, where the first r entries are not its own: y <- y + sum q_r (q_r'x). */
static void square_rows(int64_t n, const real *const *q, const real *restrict x, real *restrict y)
{
    const real *restrict q0 = q[0], *restrict q1 = q[1], *restrict q2 = q[2], *restrict q3 = q[3];
    real s0 = q0[0] * x[0] + q0[1] * x[1] + q0[2] * x[2] + q0[3] * x[3];
    real s1 = q1[1] * x[1] + q1[2] * x[2] + q1[3] * x[3], s2 = q2[2] * x[2] + q2[3] * x[3], s3 = q3[3] * x[3];
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t j = 4; j < n; j++) {
        s0 += q0[j] * x[j];
        s1 += q1[j] * x[j];
        s2 += q2[j] * x[j];
        s3 += q3[j] * x[j];
    }
    y[0] += s0 * q0[0];
    y[1] += s0 * q0[1] + s1 * q1[1];
    y[2] += s0 * q0[2] + s1 * q1[2] + s2 * q2[2];
    y[3] += s0 * q0[3] + s1 * q1[3] + s2 * q2[3] + s3 * q3[3];
    for (int64_t j = 4; j < n; j++) y[j] += s0 * q0[j] + s1 * q1[j] + s2 * q2[j] + s3 * q3[j];
}

void KERNEL(packed_square)(int64_t n, const real *q, const real *restrict x, real *restrict y)
{
    for (; n >= 4; n -= 4, x += 4, y += 4) {
        const real *rows[4] = {q, q + n - 1, q + 2 * n - 3, q + 3 * n - 6};
        square_rows(n, rows, x, y);
        q += 4 * n - 6;
    }
    for (; n > 0; q += n--, x++, y++) {
        real sum = 0;
        for (int64_t j = 0; j < n; j++) sum += q[j] * x[j];
        for (int64_t j = 0; j < n; j++) y[j] += sum * q[j];
    }
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

void KERNEL(row_retract_four)(int64_t n, const real *x, const real *w, real *restrict q, int64_t ld, real *restrict s)
{
    real *s1 = s + ld, *s2 = s1 + ld, *s3 = s2 + ld;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        s[j] += x[0] * q[j];
        s1[j] += x[1] * q[j];
        s2[j] += x[2] * q[j];
        s3[j] += x[3] * q[j];
        q[j] -= w[0] * s[j] + w[1] * s1[j] + w[2] * s2[j] + w[3] * s3[j];
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
