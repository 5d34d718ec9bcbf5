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

ALWAYS_INLINE vec pick(vec_bits where, vec a, vec b)
{
    return (vec)((where & (vec_bits)a) | (~where & (vec_bits)b));
}

/* a = q (h + damping v) and b = v / q need not be formed: |a| > |b| is |q^2 (h + damping v)| > |v|, which no finite
 * input makes a NaN. */
ALWAYS_INLINE vec next_entries(const la_entry_rule *r, vec q, vec h, vec v)
{
    vec x = h + r->damping * v, none = {0}, step = r->step + none;
    vec a = (vec)vec_abs_bits(q * q * x), b = (vec)vec_abs_bits(v);
    vec_bits up = (a < b) & (q < pick(x == none, r->ceiling + none, r->max + none));
    vec_bits down = (a > b) & (q > pick(v == none, r->floor + none, r->min + none));
    return q + q * (vec)((up & (vec_bits)step) | (down & (vec_bits)-step));
}

void KERNEL(diag_entries)(int64_t n, const la_entry_rule *rule, const real *h, const real *v, real *q)
{
    la_entry_rule r = *rule;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec_store(q + i, next_entries(&r, vec_load(q + i), vec_load(h + i), vec_load(v + i)));
    }
    if (i == n) return;
    vec last = next_entries(&r, vec_load_some(q + i, n - i), vec_load_some(h + i, n - i), vec_load_some(v + i, n - i));
    vec_store_some(q + i, last, n - i);
}
