/* Straight from h and v to R, and from x to Px, without A and B: flat diagonals, and matrices under a diagonal on the
 * left and a diagonal with one more column on the right. */
#include "la/kernel/capture.h"
#include "la/kernel/bits.h"
#include "la/kernel/stream.h"

enum { BUFFER = 1024 }; /* numbers that wait in the first-level cache to be streamed out */

static inline bits diag_some(int64_t n, const real *restrict q, const real *restrict h, const real *restrict v,
                             real damping, real sign, real *restrict r)
{
    bits most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        real a = q[i] * (h[i] + damping * v[i]), b = v[i] / q[i];
        r[i] = a * a + sign * (b * b);
        bits here = abs_bits(r[i]);
        most = here > most ? here : most;
    }
    return most;
}

real KERNEL(diag_capture)(int64_t n, const real *q, const real *h, const real *v, real damping, real sign, real *r,
                          bool stream)
{
    if (!stream) return from_bits(diag_some(n, q, h, v, damping, sign, r));

    real buffer[BUFFER];
    bits most = 0;
    for (int64_t i = 0; i < n; i += BUFFER) {
        int64_t count = n - i < BUFFER ? n - i : BUFFER;
        bits here = diag_some(count, q + i, h + i, v + i, damping, sign, buffer);
        most = here > most ? here : most;
        stream_copy(r + i, buffer, count * (int64_t)sizeof(real));
    }
    stream_done();
    return from_bits(most);
}

static inline void diag_product(int64_t n, real alpha, const real *restrict q, const real *restrict x, real *restrict y)
{
    for (int64_t i = 0; i < n; i++) y[i] = alpha * (q[i] * (q[i] * x[i]));
}

void KERNEL(diag_apply)(int64_t n, real alpha, const real *q, const real *x, bool add, real *y, bool stream)
{
    if (add) {
        for (int64_t i = 0; i < n; i++) y[i] += alpha * (q[i] * (q[i] * x[i]));
    } else if (x == y) {
        for (int64_t i = 0; i < n; i++) y[i] = alpha * (q[i] * (q[i] * y[i]));
    } else if (stream) {
        real buffer[BUFFER];
        for (int64_t i = 0; i < n; i += BUFFER) {
            int64_t count = n - i < BUFFER ? n - i : BUFFER;
            diag_product(count, alpha, q + i, x + i, buffer);
            stream_copy(y + i, buffer, count * (int64_t)sizeof(real));
        }
        stream_done();
    } else {
        diag_product(n, alpha, q, x, y);
    }
}

void KERNEL(retract)(int64_t n, real c, const real *restrict r, real least, real *restrict q)
{
    for (int64_t i = 0; i < n; i++) {
        real next = q[i] - c * r[i] * q[i];
        q[i] = next > least ? next : least;
    }
}

/* Lanes of reals within a stretch, stretches in double. */
double KERNEL(row_dot)(int64_t n, const real *restrict x, const real *restrict y)
{
    double total = 0;
    for (int64_t from = 0; from < n; from += BUFFER) {
        int64_t to = n - from < BUFFER ? n : from + BUFFER;
        real sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = from; j < to; j++) sum += x[j] * y[j];
        total += (double)sum;
    }
    return total;
}

/* Lanes of reals within a stretch, stretches in double; four rows are four independent sums. */
void KERNEL(rows_dot)(int64_t n, const real *restrict e, const real *const *rows, double *dot)
{
    for (int r = 0; r < 4; r++) dot[r] = 0;
    for (int64_t from = 0; from < n; from += BUFFER) {
        int64_t to = n - from < BUFFER ? n : from + BUFFER;
        const real *restrict y0 = rows[0], *restrict y1 = rows[1], *restrict y2 = rows[2], *restrict y3 = rows[3];
        real s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t j = from; j < to; j++) {
            s0 += e[j] * y0[j];
            s1 += e[j] * y1[j];
            s2 += e[j] * y2[j];
            s3 += e[j] * y3[j];
        }
        dot[0] += (double)s0;
        dot[1] += (double)s1;
        dot[2] += (double)s2;
        dot[3] += (double)s3;
    }
}

/* The bools are constants wherever this is called. */
__attribute__((always_inline)) static inline void capture_some(int64_t n, la_rows *rows, const real *restrict p,
                                                               const real *restrict c, const real *restrict r,
                                                               bool plus, bool damped, bool column,
                                                               double *restrict diagonal, double *restrict side)
{
    const real *restrict x0 = rows->x[0], *restrict x1 = rows->x[1], *restrict x2 = rows->x[2],
                         *restrict x3 = rows->x[3];
    const real *restrict y0 = rows->y[0], *restrict y1 = rows->y[1], *restrict y2 = rows->y[2],
                         *restrict y3 = rows->y[3];
    const la_rows g = *rows;
    real s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#define ROW(k)                                                                                                         \
    do {                                                                                                               \
        real x = damped ? x##k[j] + g.x_damping * y##k[j] : x##k[j];                                                   \
        real y = damped ? y##k[j] + g.y_damping * x##k[j] : y##k[j];                                                   \
        real a = g.x_row[k] * (column ? p[j] * x + c[j] * g.x_last[k] : p[j] * x), b = g.y_row[k] * (r[j] * y);        \
        real e = plus ? a * a + b * b : a * a - b * b;                                                                 \
        s##k += e;                                                                                                     \
        d += e;                                                                                                        \
        if (column) m += g.x_side[k] * a + g.y_side[k] * b;                                                            \
    } while (0)
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t j = 0; j < n; j++) {
        real d = 0, m = 0;
        ROW(0);
        ROW(1);
        ROW(2);
        ROW(3);
        diagonal[j] += (double)d;
        if (column) side[j] += (double)m;
    }
#undef ROW
    rows->sum[0] += (double)s0;
    rows->sum[1] += (double)s1;
    rows->sum[2] += (double)s2;
    rows->sum[3] += (double)s3;
}

void KERNEL(rows_capture)(int64_t n, la_rows *rows, const real *p, const real *c, const real *r, double *diagonal,
                          double *side)
{
    bool damped = rows->x_damping != 0 || rows->y_damping != 0;
    if (rows->plus && c) {
        capture_some(n, rows, p, c, r, true, true, true, diagonal, side);
    } else if (rows->plus) {
        capture_some(n, rows, p, NULL, r, true, true, false, diagonal, NULL);
    } else if (damped && c) {
        capture_some(n, rows, p, c, r, false, true, true, diagonal, side);
    } else if (damped) {
        capture_some(n, rows, p, NULL, r, false, true, false, diagonal, NULL);
    } else if (c) {
        capture_some(n, rows, p, c, r, false, false, true, diagonal, side);
    } else {
        capture_some(n, rows, p, NULL, r, false, false, false, diagonal, NULL);
    }
}

void KERNEL(row_apply)(int64_t n, real alpha, const real *restrict d, const real *x, real t, const real *restrict f,
                       bool add, real *y)
{
    if (add) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[j] += alpha * (d[j] * x[j] + t * f[j]);
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[j] = alpha * (d[j] * x[j] + t * f[j]);
    }
}
