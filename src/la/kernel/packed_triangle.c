/* Rows of a triangle, one or four at a time: four share the loads and stores of what runs along them. */
#include "la/kernel/kernel.h"
#include "la/kernel/vec.h"

/* In loops that the compiler vectorises, what is left over after whole vectors of 64 bytes costs more than they gain.
 */
#if defined(__AVX512F__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=256")
#endif

/* sum_r += q_r x over a vector of columns, or its first count. */
ALWAYS_INLINE void add_products(int rows, const real *const *q, const real *x, int64_t j, bool whole, int64_t count,
                                vec *sum)
{
    vec at = vec_load_part(x + j, whole, count);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sum[r] += vec_load_part(q[r] + j, whole, count) * at;
}

/* y += sum s_r q_r there. */
ALWAYS_INLINE void add_rows(int rows, const real *const *q, const real *s, int64_t j, bool whole, int64_t count,
                            real *y)
{
    vec at = vec_load_part(y + j, whole, count);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) at += s[r] * vec_load_part(q[r] + j, whole, count);
    vec_store_part(y + j, at, whole, count);
}

/* q_r is row i + r of Q from column i on, where the first r entries are not its own: y <- y + sum q_r (q_r'x). */
static void square_rows(int64_t n, const real *const *q, const real *restrict x, real *restrict y)
{
    const real *restrict q0 = q[0], *restrict q1 = q[1], *restrict q2 = q[2], *restrict q3 = q[3];
    real s[4] = {q0[0] * x[0] + q0[1] * x[1] + q0[2] * x[2] + q0[3] * x[3], q1[1] * x[1] + q1[2] * x[2] + q1[3] * x[3],
                 q2[2] * x[2] + q2[3] * x[3], q3[3] * x[3]};
    vec sum[4] = {0};
    int64_t j = 4;
    for (; j + LANES <= n; j += LANES) add_products(4, q, x, j, true, LANES, sum);
    if (j < n) add_products(4, q, x, j, false, n - j, sum);
    vec_add_sums(4, sum, s);
    y[0] += s[0] * q0[0];
    y[1] += s[0] * q0[1] + s[1] * q1[1];
    y[2] += s[0] * q0[2] + s[1] * q1[2] + s[2] * q2[2];
    y[3] += s[0] * q0[3] + s[1] * q1[3] + s[2] * q2[3] + s[3] * q3[3];
    for (j = 4; j + LANES <= n; j += LANES) add_rows(4, q, s, j, true, LANES, y);
    if (j < n) add_rows(4, q, s, j, false, n - j, y);
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

/* Both over rows of one length: dot_r += q_r x, y <- y - sum b_r q_r. */
ALWAYS_INLINE void form(int rows, int64_t n, const real *b, const real *const *q, const real *restrict x,
                        real *restrict y, double *dot)
{
    vec sum[4] = {0};
    real minus[4], s[4] = {0};
    for (int r = 0; r < rows; r++) minus[r] = -b[r];
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        add_products(rows, q, x, j, true, LANES, sum);
        add_rows(rows, q, minus, j, true, LANES, y);
    }
    if (j < n) {
        add_products(rows, q, x, j, false, n - j, sum);
        add_rows(rows, q, minus, j, false, n - j, y);
    }
    if (rows == 1) {
        s[0] = vec_sum(sum[0]);
    } else {
        vec_add_sums(rows, sum, s);
    }
    for (int r = 0; r < rows; r++) dot[r] += (double)s[r];
}

void KERNEL(row_form)(int64_t n, real b, const real *q, const real *restrict x, real *restrict y, double *dot)
{
    form(1, n, &b, &q, x, y, dot);
}

void KERNEL(rows_form)(int64_t n, const real *b, const real *const *q, const real *restrict x, real *restrict y,
                       double *dot)
{
    form(4, n, b, q, x, y, dot);
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
