/* Straight from h and v to R, and from x to Px, without A and B: flat diagonals. */
#include "la/kernel/kernel.h"
#include "la/kernel/vec.h"

ALWAYS_INLINE real one_r(real q, real h, real v, real damping, real sign)
{
    real a = q * (h + damping * v), b = v / q;
    return a * a + sign * (b * b);
}

/* The ends of a stretch, where vectors do not fit. */
static bits diag_few(int64_t n, const real *q, const real *h, const real *v, real damping, real sign, real *r)
{
    bits max = 0;
    for (int64_t i = 0; i < n; i++) {
        r[i] = one_r(q[i], h[i], v[i], damping, sign);
        bits here = abs_bits(r[i]);
        max = here > max ? here : max;
    }
    return max;
}

real KERNEL(diag_fused)(int64_t n, const real *q, const real *h, const real *v, real damping, real sign, real *r,
                        bool stream)
{
    int64_t i = stream ? vec_head(r, n) : 0;
    bits max = diag_few(i, q, h, v, damping, sign, r);
    vec_bits lanes = {0};
    for (; i + LANES <= n; i += LANES) {
        vec scale = vec_load(q + i), w = vec_load(v + i);
        vec a = scale * (vec_load(h + i) + damping * w), b = w / scale;
        vec next = a * a + sign * (b * b);
        lanes = vec_larger(lanes, vec_abs_bits(next));
        if (stream) {
            vec_stream(r + i, next);
        } else {
            vec_store(r + i, next);
        }
    }
    bits rest = diag_few(n - i, q + i, h + i, v + i, damping, sign, r + i), body = vec_largest(lanes);
    max = rest > max ? rest : max;
    return from_bits(body > max ? body : max);
}

static void product_few(int64_t n, const real *q, const real *x, real *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = q[i] * (q[i] * x[i]);
}

void KERNEL(diag_apply)(int64_t n, const real *q, const real *x, real *y, bool stream)
{
    int64_t i = stream ? vec_head(y, n) : 0;
    product_few(i, q, x, y);
    for (; i + LANES <= n; i += LANES) {
        vec scale = vec_load(q + i), next = scale * (scale * vec_load(x + i));
        if (stream) {
            vec_stream(y + i, next);
        } else {
            vec_store(y + i, next);
        }
    }
    product_few(n - i, q + i, x + i, y + i);
}

void KERNEL(retract)(int64_t n, real c, const real *restrict r, real min, real *restrict q)
{
    for (int64_t i = 0; i < n; i++) {
        real next = q[i] - c * r[i] * q[i];
        q[i] = next > min ? next : min;
    }
}
