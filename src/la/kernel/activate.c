/* Elementwise functions with their first and second derivatives, and the LSTM cell. */
#include "la/kernel/kernel.h"
#include "la/kernel/exp.h"

/* Results may take the place of an argument. */
void KERNEL(apply)(la_function f, real leak, int64_t n, const real *x, real *y)
{
    switch (f) {
    case LA_RELU:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : leak * x[i];
        break;
    case LA_TANH:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = tanh_real(x[i]);
        break;
    case LA_SIGMOID:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = sigmoid_real(x[i]);
        break;
    }
}

/* f' in terms of y. A rectified x is above 0 exactly where y is. */
static inline __attribute__((always_inline)) real slope_of(la_function f, real leak, real y)
{
    switch (f) {
    case LA_RELU:
        return y > 0 ? 1 : leak;
    case LA_TANH:
        return 1 - y * y;
    case LA_SIGMOID:
        return y * (1 - y);
    }
    return 0;
}

/* d f' / dy; times ty it is the tangent of f'. */
static inline __attribute__((always_inline)) real bend_of(la_function f, real y)
{
    return f == LA_TANH ? -2 * y : f == LA_SIGMOID ? 1 - 2 * y : 0;
}

static inline __attribute__((always_inline)) void slope_loop(la_function f, real leak, int64_t n, const real *y,
                                                             const real *d, bool add, real *z)
{
    if (add) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] += slope_of(f, leak, y[i]) * d[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = slope_of(f, leak, y[i]) * d[i];
    }
}

void KERNEL(slope)(la_function f, real leak, int64_t n, const real *y, const real *d, bool add, real *z)
{
    switch (f) {
    case LA_RELU:
        slope_loop(LA_RELU, leak, n, y, d, add, z);
        break;
    case LA_TANH:
        slope_loop(LA_TANH, leak, n, y, d, add, z);
        break;
    case LA_SIGMOID:
        slope_loop(LA_SIGMOID, leak, n, y, d, add, z);
        break;
    }
}

static inline __attribute__((always_inline)) void curve_loop(la_function f, real leak, int64_t n, const real *y,
                                                             const real *ty, const real *d, const real *td, bool add,
                                                             real *z)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real own = slope_of(f, leak, y[i]) * td[i] + bend_of(f, y[i]) * ty[i] * d[i];
        z[i] = add ? z[i] + own : own;
    }
}

void KERNEL(curve)(la_function f, real leak, int64_t n, const real *y, const real *ty, const real *d, const real *td,
                   bool add, real *z)
{
    switch (f) {
    case LA_RELU:
        slope_loop(LA_RELU, leak, n, y, td, add, z);
        break;
    case LA_TANH:
        curve_loop(LA_TANH, leak, n, y, ty, d, td, add, z);
        break;
    case LA_SIGMOID:
        curve_loop(LA_SIGMOID, leak, n, y, ty, d, td, add, z);
        break;
    }
}

void KERNEL(exp_minus)(int64_t n, const real *restrict x, const real *restrict m, real *restrict y)
{
    for (int64_t i = 0; i < n; i++) y[i] = exp_real(x[i] - m[i]);
}

void KERNEL(lstm_forward)(int64_t n, const la_lstm *cell)
{
    real *restrict i = cell->a[0], *restrict f = cell->a[1], *restrict g = cell->a[2], *restrict o = cell->a[3];
    real *restrict c = cell->c, *restrict s = cell->s, *restrict h = cell->h;
    const real *restrict c0 = cell->c0;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        i[j] = sigmoid_real(i[j]);
        f[j] = sigmoid_real(f[j]);
        o[j] = sigmoid_real(o[j]);
        g[j] = tanh_real(g[j]);
        c[j] = f[j] * c0[j] + i[j] * g[j];
        s[j] = tanh_real(c[j]);
        h[j] = o[j] * s[j];
    }
}

void KERNEL(lstm_tangent)(int64_t n, const la_lstm *cell)
{
    const real *restrict i = cell->a[0], *restrict f = cell->a[1], *restrict g = cell->a[2], *restrict o = cell->a[3];
    real *restrict ti = cell->ta[0], *restrict tf = cell->ta[1], *restrict tg = cell->ta[2], *restrict to = cell->ta[3];
    const real *restrict c0 = cell->c0, *restrict tc0 = cell->tc0, *restrict s = cell->s;
    real *restrict tc = cell->tc, *restrict ts = cell->ts, *restrict th = cell->th;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        ti[j] *= i[j] * (1 - i[j]);
        tf[j] *= f[j] * (1 - f[j]);
        tg[j] *= 1 - g[j] * g[j];
        to[j] *= o[j] * (1 - o[j]);
        tc[j] = tf[j] * c0[j] + f[j] * tc0[j] + ti[j] * g[j] + i[j] * tg[j];
        ts[j] = (1 - s[j] * s[j]) * tc[j];
        th[j] = to[j] * s[j] + o[j] * ts[j];
    }
}

void KERNEL(lstm_backward)(int64_t n, const la_lstm *cell)
{
    const real *restrict i = cell->a[0], *restrict f = cell->a[1], *restrict g = cell->a[2], *restrict o = cell->a[3];
    real *restrict di = cell->da[0], *restrict df = cell->da[1], *restrict dg = cell->da[2],
                   *restrict d_o = cell->da[3];
    const real *restrict c0 = cell->c0, *restrict s = cell->s, *restrict dh = cell->dh;
    real *restrict dct = cell->dct, *restrict dc = cell->dc;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        real d = dc[j] + dh[j] * o[j] * (1 - s[j] * s[j]);
        dct[j] = d;
        di[j] = d * g[j] * i[j] * (1 - i[j]);
        df[j] = d * c0[j] * f[j] * (1 - f[j]);
        dg[j] = d * i[j] * (1 - g[j] * g[j]);
        d_o[j] = dh[j] * s[j] * o[j] * (1 - o[j]);
        dc[j] = d * f[j];
    }
}

/* Each line is the derivative of one of lstm_backward: d is its dct, td the tangent of that. */
void KERNEL(lstm_tangent_backward)(int64_t n, const la_lstm *cell)
{
    const real *restrict i = cell->a[0], *restrict f = cell->a[1], *restrict g = cell->a[2], *restrict o = cell->a[3];
    const real *restrict ti = cell->ta[0], *restrict tf = cell->ta[1], *restrict tg = cell->ta[2],
                         *restrict to = cell->ta[3];
    real *restrict tdi = cell->tda[0], *restrict tdf = cell->tda[1], *restrict tdg = cell->tda[2],
                   *restrict tdo = cell->tda[3];
    const real *restrict c0 = cell->c0, *restrict tc0 = cell->tc0, *restrict s = cell->s, *restrict ts = cell->ts;
    const real *restrict dh = cell->dh, *restrict tdh = cell->tdh, *restrict dct = cell->dct;
    real *restrict tdc = cell->tdc;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        real bend = 1 - s[j] * s[j], d = dct[j];
        real td = tdc[j] + (tdh[j] * o[j] + dh[j] * to[j]) * bend - 2 * dh[j] * o[j] * s[j] * ts[j];
        tdi[j] = (td * g[j] + d * tg[j]) * i[j] * (1 - i[j]) + d * g[j] * (1 - 2 * i[j]) * ti[j];
        tdf[j] = (td * c0[j] + d * tc0[j]) * f[j] * (1 - f[j]) + d * c0[j] * (1 - 2 * f[j]) * tf[j];
        tdg[j] = (td * i[j] + d * ti[j]) * (1 - g[j] * g[j]) - 2 * d * i[j] * g[j] * tg[j];
        tdo[j] = (tdh[j] * s[j] + dh[j] * ts[j]) * o[j] * (1 - o[j]) + dh[j] * s[j] * (1 - 2 * o[j]) * to[j];
        tdc[j] = td * f[j] + d * tf[j];
    }
}
