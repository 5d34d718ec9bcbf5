/* Diagonal plus antidiagonal, flat: entries i and j = size - 1 - i meet in the 2 x 2 matrix [d_i e_i; e_j d_j]. A call
 * takes n pairs from pair `from` on; entries j run downwards. */
#include "la/kernel/kernel.h"
#include "la/kernel/vec.h"

#include <math.h>

enum { BUFFER = 512 };

/* ad - bc without cancellation: with an FMA the rounding of bc is put back; without one the products of f32 are exact
 * in double. */
static inline real difference(real a, real d, real b, real c)
{
#if defined(PSGD_REAL_F64)
    double bc = b * c;
    return fma(a, d, -bc) + fma(-b, c, bc);
#elif defined(__FMA__)
    float bc = b * c;
    return fmaf(a, d, -bc) + fmaf(-b, c, bc);
#else
    return (real)((double)a * (double)d - (double)b * (double)c);
#endif
}

static inline real root(real x)
{
#ifdef PSGD_REAL_F64
    return sqrt(x);
#else
    return sqrtf(x);
#endif
}

/* [p m; m q] = aa' + sign bb' for a = [d e; ej dj] (x, y) and b, its inverse transpose times (v, w). */
typedef struct pair_r {
    real p, q, m;
} pair_r;

static inline pair_r make_r(real d, real e, real dj, real ej, real x, real y, real v, real w, real sign)
{
    real a = d * x + e * y, b = ej * x + dj * y, scale = 1 / difference(d, dj, e, ej);
    real s = difference(dj, v, ej, w) * scale, t = difference(d, w, e, v) * scale;
    return (pair_r){a * a + sign * (s * s), b * b + sign * (t * t), a * b + sign * (s * t)};
}

static inline bits larger(bits a, bits b)
{
    return a > b ? a : b;
}

/* ri, rj, re and rf in the order of memory. */
static inline void fused_some(int64_t n, const real *restrict d, const real *restrict e, const real *restrict h,
                              const real *restrict v, const real *restrict dj, const real *restrict ej,
                              const real *restrict hj, const real *restrict vj, real damping, real sign,
                              real *restrict ri, real *restrict rj, real *restrict re, real *restrict rf, bits *largest,
                              bits *spectral)
{
    bits max = 0, norm = 0;
#pragma omp simd reduction(max : max, norm)
    for (int64_t k = 0; k < n; k++) {
        real x = h[k] + damping * v[k], y = hj[-k] + damping * vj[-k];
        pair_r r = make_r(d[k], e[k], dj[-k], ej[-k], x, y, v[k], vj[-k], sign);
        ri[k] = r.p;
        rj[n - 1 - k] = r.q;
        re[k] = r.m;
        rf[n - 1 - k] = r.m;
        max = larger(max, larger(larger(abs_bits(r.p), abs_bits(r.q)), abs_bits(r.m)));
        real mean = (real)0.5 * (r.p + r.q), half = (real)0.5 * (r.p - r.q);
        norm = larger(norm, abs_bits(from_bits(abs_bits(mean)) + root(half * half + r.m * r.m)));
    }
    *largest = larger(max, *largest);
    *spectral = larger(norm, *spectral);
}

static inline void put(real *to, const real *from, int64_t n, bool stream)
{
    int64_t i = stream ? vec_head(to, n) : n;
    memcpy(to, from, (size_t)i * sizeof *to);
    for (; i + LANES <= n; i += LANES) vec_stream(to + i, vec_load(from + i));
    memcpy(to + i, from + i, (size_t)(n - i) * sizeof *to);
}

void KERNEL(cross_fused)(int64_t n, const la_cross_pairs *p, real damping, real sign, real *R, bool stream,
                         real *largest, real *spectral)
{
    real ri[BUFFER], rj[BUFFER], re[BUFFER], rf[BUFFER];
    const real *d = p->d, *e = p->e, *h = p->h, *v = p->v;
    bits max = 0, norm = 0;
    int64_t end = p->from + n;
    for (int64_t i = p->from; i < end; i += BUFFER) {
        int64_t count = end - i < BUFFER ? end - i : BUFFER;
        int64_t j = p->size - 1 - i, low = j - count + 1;
        fused_some(count, d + i, e + i, h + i, v + i, d + j, e + j, h + j, v + j, damping, sign, ri, rj, re, rf, &max,
                   &norm);
        put(R + i, ri, count, stream);
        put(R + low, rj, count, stream);
        put(R + p->size + i, re, count, stream);
        put(R + p->size + low, rf, count, stream);
    }
    *largest = from_bits(max);
    *spectral = from_bits(norm);
}

static inline void retract_some(int64_t n, real c, const real *restrict r, const real *restrict f,
                                const real *restrict rj, const real *restrict fj, real *restrict d, real *restrict e,
                                real *restrict dj, real *restrict ej)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        real a = d[k], b = e[k], g = ej[-k], h = dj[-k];
        d[k] = a - c * (r[k] * a + f[k] * g);
        e[k] = b - c * (r[k] * b + f[k] * h);
        dj[-k] = h - c * (rj[-k] * h + fj[-k] * b);
        ej[-k] = g - c * (rj[-k] * g + fj[-k] * a);
    }
}

void KERNEL(cross_retract)(int64_t n, const la_cross_pairs *p, real c, const real *R, real *Q)
{
    int64_t i = p->from, j = p->size - 1 - i;
    real *e = Q + p->size;
    const real *f = R + p->size;
    retract_some(n, c, R + i, f + i, R + j, f + j, Q + i, e + i, Q + j, e + j);
}

/* yi, yj <- Q'Q (xi, xj), both in the order of memory. */
static inline void product_some(int64_t n, const real *restrict d, const real *restrict e, const real *restrict dj,
                                const real *restrict ej, const real *restrict x, const real *restrict xj,
                                real *restrict yi, real *restrict yj)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        real a = d[k] * x[k] + e[k] * xj[-k], b = ej[-k] * x[k] + dj[-k] * xj[-k];
        yi[k] = d[k] * a + ej[-k] * b;
        yj[n - 1 - k] = e[k] * a + dj[-k] * b;
    }
}

/* x and y are the same array or apart, and a pair needs no other. */
void KERNEL(cross_apply)(int64_t n, const la_cross_pairs *p, const real *x, real *y, bool stream)
{
    real yi[BUFFER], yj[BUFFER];
    for (int64_t k = 0; k < n; k += BUFFER) {
        int64_t count = n - k < BUFFER ? n - k : BUFFER, i = p->from + k, j = p->size - 1 - i, low = j - count + 1;
        product_some(count, p->d + i, p->e + i, p->d + j, p->e + j, x + i, x + j, yi, yj);
        put(y + i, yi, count, stream);
        put(y + low, yj, count, stream);
    }
}
