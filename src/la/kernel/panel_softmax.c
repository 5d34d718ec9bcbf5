/* The softmax of the columns of a panel, and its derivatives. */
#include "la/kernel/kernel.h"
#include "la/kernel/exp.h"
#include "la/kernel/vec.h"

ALWAYS_INLINE void stream_row(const real *x, real *to)
{
    for (int j = 0; j < LA_PANEL; j += LANES) vec_stream(to + j, vec_load(x + j));
}

void KERNEL(panel_exp)(int64_t rows, const real *restrict Z, real *restrict max, real *restrict sum, real *restrict E)
{
    real m[LA_PANEL], s[LA_PANEL] = {0}, e[LA_PANEL];
    for (int j = 0; j < LA_PANEL; j++) m[j] = Z[j];
    for (int64_t i = 1; i < rows; i++) {
        const real *z = Z + i * LA_PANEL;
        for (int j = 0; j < LA_PANEL; j++) m[j] = z[j] > m[j] ? z[j] : m[j];
    }
    for (int64_t i = 0; i < rows; i++) {
        const real *z = Z + i * LA_PANEL;
#pragma omp simd
        for (int j = 0; j < LA_PANEL; j++) {
            e[j] = exp_real(z[j] - m[j]);
            s[j] += e[j];
        }
        stream_row(e, E + i * LA_PANEL);
    }
    stream_done();
    for (int j = 0; j < LA_PANEL; j++) {
        max[j] = m[j];
        sum[j] = s[j];
    }
}

void KERNEL(panel_spread)(int64_t rows, const real *restrict Z, const real *restrict E, real *restrict spread,
                          real *restrict T)
{
    real s[LA_PANEL] = {0};
    for (int64_t i = 0; i < rows; i++) {
        const real *z = Z + i * LA_PANEL, *e = E + i * LA_PANEL;
        for (int j = 0; j < LA_PANEL; j++) s[j] += e[j] * z[j];
        stream_row(z, T + i * LA_PANEL);
    }
    stream_done();
    for (int j = 0; j < LA_PANEL; j++) spread[j] = s[j];
}

void KERNEL(panel_weigh)(int64_t rows, const real *restrict factor, const real *restrict E, real *restrict D)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int j = 0; j < LA_PANEL; j++) D[i * LA_PANEL + j] = factor[j] * E[i * LA_PANEL + j];
    }
}

void KERNEL(panel_weigh_both)(int64_t rows, const la_weights *by, const real *restrict E, const real *restrict T,
                              real *restrict D, real *restrict tD)
{
    const real *restrict factor = by->factor, *restrict shift = by->shift, *restrict mean = by->mean;
    for (int64_t i = 0; i < rows; i++) {
        for (int j = 0; j < LA_PANEL; j++) {
            real e = E[i * LA_PANEL + j], d = factor[j] * e;
            D[i * LA_PANEL + j] = d;
            tD[i * LA_PANEL + j] = d * (T[i * LA_PANEL + j] - mean[j]) + shift[j] * e;
        }
    }
}
