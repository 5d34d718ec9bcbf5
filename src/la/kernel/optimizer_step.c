/* One pass steps: see la/fused/optimizer_step.h for the formulas. out may be x, entry by entry, which is why neither is
 * restrict.
 *
 * s is the root of the mean square and not the square, which would leave f32 for gradients above 1e19 or below 1e-19.
 */
#include "la/kernel/kernel.h"
#include "la/kernel/vec.h"

#include <math.h>

/* u <- decay u + gain g. Without a gradient u would decay to subnormal values, which cost a hundred cycles in every
 * product: it is set to zero instead. */
#ifdef PSGD_REAL_F64
#define VANISHED 0x1p-1000
#else
#define VANISHED 0x1p-118f
#endif
static inline real moving(real decay, real u, real gain, real g)
{
    real next = decay * u + gain * g;
    return g == 0 && next < VANISHED && next > -VANISHED ? 0 : next;
}

void KERNEL(step_plain)(int64_t n, const step_rule *rule, const real *g, const real *x, real *out)
{
    step_rule r = *rule;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = r.keep * x[i] - r.rate * (g[i] + r.l2 * x[i]);
}

void KERNEL(step_momentum)(int64_t n, const step_rule *rule, const real *g, real *u, const real *x, real *out)
{
    step_rule r = *rule;
    real of_g = r.ahead ? r.gain1 : 0, of_u = r.ahead ? r.decay1 : 1;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real slope = g[i] + r.l2 * x[i];
        real next = moving(r.decay1, u[i], r.gain1, slope);
        u[i] = next;
        out[i] = r.keep * x[i] - r.rate * (of_u * next + of_g * slope);
    }
}

static inline real root_mean(const step_rule *r, real s, real g)
{
    return (real)sqrt(r->decay2 * ((double)s * (double)s) + r->gain2 * ((double)g * (double)g));
}

ALWAYS_INLINE void rms(int64_t n, const step_rule *rule, bool inside, const real *g, real *s, const real *x, real *out)
{
    step_rule r = *rule;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real slope = g[i] + r.l2 * x[i];
        real root = root_mean(&r, s[i], slope);
        s[i] = root;
        real below = la_divisor(&r, root, inside);
        out[i] = r.keep * x[i] - r.rate * (below > 0 ? r.correct1 * slope / below : 0);
    }
}

void KERNEL(step_rms)(int64_t n, const step_rule *r, const real *g, real *s, const real *x, real *out)
{
    if (r->inside) {
        rms(n, r, true, g, s, x, out);
    } else {
        rms(n, r, false, g, s, x, out);
    }
}

ALWAYS_INLINE void adam(int64_t n, const step_rule *rule, bool inside, const real *g, real *u, real *s, const real *x,
                        real *out)
{
    step_rule r = *rule;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real slope = g[i] + r.l2 * x[i];
        real mean = moving(r.decay1, u[i], r.gain1, slope);
        real root = root_mean(&r, s[i], slope);
        u[i] = mean;
        s[i] = root;
        real below = la_divisor(&r, root, inside);
        out[i] = r.keep * x[i] - r.rate * (below > 0 ? r.correct1 * mean / below : 0);
    }
}

void KERNEL(step_adam)(int64_t n, const step_rule *r, const real *g, real *u, real *s, const real *x, real *out)
{
    if (r->inside) {
        adam(n, r, true, g, u, s, x, out);
    } else {
        adam(n, r, false, g, u, s, x, out);
    }
}
