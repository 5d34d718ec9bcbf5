#include "la/fused/optimizer_step.h"
#include "la/array/dispatch.h"

#include <math.h>

enum { CHUNK = 1 << 14, PARALLEL = 1 << 16 };

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void la_step_plain(int64_t n, const step_rule *r, const real *g, const real *x, real *out)
{
    const la_kernels *k = la_kernel();
    if (n <= CHUNK) {
        k->step_plain(n, r, g, x, out);
        return;
    }
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i += CHUNK) k->step_plain(smaller(CHUNK, n - i), r, g + i, x + i, out + i);
}

void la_step_momentum(int64_t n, const step_rule *r, const real *g, real *u, const real *x, real *out)
{
    const la_kernels *k = la_kernel();
    if (n <= CHUNK) {
        k->step_momentum(n, r, g, u, x, out);
        return;
    }
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i += CHUNK) k->step_momentum(smaller(CHUNK, n - i), r, g + i, u + i, x + i, out + i);
}

void la_step_rms(int64_t n, const step_rule *r, const real *g, real *s, const real *x, real *out)
{
    const la_kernels *k = la_kernel();
    if (n <= CHUNK) {
        k->step_rms(n, r, g, s, x, out);
        return;
    }
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i += CHUNK) k->step_rms(smaller(CHUNK, n - i), r, g + i, s + i, x + i, out + i);
}

void la_step_adam(int64_t n, const step_rule *r, const real *g, real *u, real *s, const real *x, real *out)
{
    const la_kernels *k = la_kernel();
    if (n <= CHUNK) {
        k->step_adam(n, r, g, u, s, x, out);
        return;
    }
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i += CHUNK) {
        k->step_adam(smaller(CHUNK, n - i), r, g + i, u + i, s + i, x + i, out + i);
    }
}

void la_step_divide(int64_t n, const step_rule *rule, const real *g, const real *s, const real *x, real *out)
{
    step_rule r = *rule;
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i++) {
        real below = r.correct2 * s[i] + r.epsilon;
        real slope = g[i] + r.l2 * x[i];
        out[i] = r.keep * x[i] - r.rate * (below > 0 ? r.correct1 * slope / below : 0);
    }
}

void la_root_mean(int64_t n, double decay, double gain, const real *h, real *s)
{
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i++) {
        s[i] = (real)sqrt(decay * ((double)s[i] * (double)s[i]) + gain * ((double)h[i] * (double)h[i]));
    }
}

void la_clamp(int64_t n, real limit, real *x)
{
#pragma omp parallel for if (n > PARALLEL)
    for (int64_t i = 0; i < n; i++) x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}
