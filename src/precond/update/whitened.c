#include "precond/update/update.h"
#include "la/array/normal.h"
#include "la/la.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Exponents within which values may be multiplied by Q (guard.c bounds its entries) and squared. */
#ifdef PSGD_REAL_F64
enum { INPUT_LIMIT = 300, SQUARE_LIMIT = 200 };
#else
enum { INPUT_LIMIT = 40, SQUARE_LIMIT = 24 };
#endif

psgd_status whiten_refuse(const char *name, int64_t n, const real *x)
{
    for (int64_t i = 0; i < n; i++) {
        if (isfinite((double)x[i])) continue;
        return psgd__fail(PSGD_ERR_NOT_FINITE, "%s is %s at entry %lld; the preconditioner is as it was", name,
                          isnan((double)x[i]) ? "not a number" : "infinite", (long long)i);
    }
    return psgd__fail(PSGD_ERR_NOT_FINITE, "%s overflows; the preconditioner is as it was", name);
}

/* 0 while |x| stays within limit, else the exponent that brings its largest entry to about 1. */
static int exponent_of(real largest, int limit)
{
    if (largest == 0) return 0;
    int e = ilogb((double)largest);
    return e < -limit || e > limit ? e : 0;
}

/* x <- x 2^-e, in two steps because 2^-e itself may overflow. */
static void scale_down(int64_t n, int e, real *x)
{
    int half = e / 2;
    if (half) la_scale(n, (real)ldexp(1, -half), x);
    if (e - half) la_scale(n, (real)ldexp(1, half - e), x);
}

/* ĝ - s + s/sqrt(B), with the s of the gradients before this one: an s that has ĝ in it would be correlated with it.
 * Divided by 1 - average^t so that it starts unbiased; the first gradient has no s. */
static real unbias(const psgd_precond *self, const real *g, real *to)
{
    const precond_settings *set = &self->settings;
    const real *s = self->average;
    double correct = 1 - pow(set->average, (double)self->updates);
    double part = correct > 0 ? (1 - 1 / sqrt((double)set->batch)) / correct : 0;
    for (int64_t i = 0; i < self->n; i++) to[i] = (real)((double)g[i] - part * (double)s[i]);
    return la_max_abs(self->n, to);
}

void whiten_keep_average(psgd_precond *self, const real *h)
{
    if (!self->settings.unbiased) return;
    double keep = self->settings.average;
    real *s = self->average;
    for (int64_t i = 0; i < self->n; i++) s[i] = (real)(keep * (double)s[i] + (1 - keep) * (double)h[i]);
}

psgd_status whiten_load(psgd_precond *self, int64_t size, int64_t count, const real *v, const real *h, whitened_pair *w)
{
    const precond_settings *set = &self->settings;
    int64_t n = count * size;
    real *A = psgd__work_at(self->work, self->at_A), *B = psgd__work_at(self->work, self->at_B);
    bool use_v = !set->integrate;
    *w = (whitened_pair){.pair = {.A = view_rows(A, size, count), .h = view_rows((real *)h, size, count)}};
    w->pair.B = w->pair.v = view_over(w->pair.A, NULL);

    real h_max;
    if (set->unbiased) {
        h_max = unbias(self, h, A);
        if (use_v && set->damping > 0) h_max = la_damp_max(n, A, (real)set->damping, v, A);
    } else if (use_v && set->damping > 0) {
        h_max = la_damp_max(n, h, (real)set->damping, v, A);
    } else {
        h_max = la_copy_max(n, h, A);
    }
    if (use_v) {
        w->pair.B.x = B;
        w->pair.v.x = (real *)v;
        real v_max = la_copy_max(n, v, B);
        if (!isfinite((double)v_max)) return whiten_refuse("v", n, v);
        w->v_max = (double)v_max;
        w->v_exponent = exponent_of(v_max, INPUT_LIMIT);
        scale_down(n, w->v_exponent, B);
    }
    if (!isfinite((double)h_max)) return whiten_refuse("h", n, h);
    w->h_max = (double)h_max;
    w->h_exponent = exponent_of(h_max, INPUT_LIMIT);
    scale_down(n, w->h_exponent, A);
    return PSGD_OK;
}

void whiten_norms(int64_t n, whitened_pair *w)
{
    w->h_norm = ldexp(sqrt(la_view_energy(w->pair.A)), w->h_exponent);
    w->v_norm = w->pair.B.x ? ldexp(sqrt(la_view_energy(w->pair.B)), w->v_exponent) : sqrt((double)n);
}

/* Where v is integrated out, the size of E[BB'] stands for that of B. */
static double log_largest(double value, int exponent)
{
    return value > 0 ? log2(value) + exponent : -HUGE_VAL;
}

psgd_status whiten_level(int64_t n, double other, whitened_pair *w)
{
    view A = w->pair.A, B = w->pair.B;
    double a = (double)la_max_abs(n, A.x), b = B.x ? (double)la_max_abs(n, B.x) : 0;
    if (!isfinite(a)) return whiten_refuse("the image of h", n, A.x);
    if (!isfinite(b) || !isfinite(other)) return whiten_refuse("the image of v", B.x ? n : 0, B.x);

    w->image = log_largest(a, w->h_exponent);
    double max = fmax(fmax(log_largest(a, w->h_exponent), log_largest(b, w->v_exponent)), log_largest(other, 0));
    int e = fabs(max) <= SQUARE_LIMIT || !isfinite(max) ? 0 : (int)max;
    scale_down(n, e - w->h_exponent, A.x);
    if (B.x) scale_down(n, e - w->v_exponent, B.x);
    w->pair.scaled = e != w->h_exponent || (B.x && e != w->v_exponent);
    w->exponent = e;
    return PSGD_OK;
}

/* x <- x + c times normal deviates of this update. */
static void add_noise(const psgd_precond *self, int64_t n, real c, real *x)
{
    enum { SOME = 1024 };
    real noise[SOME];
    rng_stream draw = psgd__rng_stream(0, RNG_ESTIMATE, UINT64_MAX, (uint64_t)self->updates);
    for (int64_t from = 0; from < n; from += SOME) {
        int64_t count = smaller(SOME, n - from);
        la_normal(&draw, from, count, noise);
        la_axpy(count, c, noise, x + from);
    }
}

double whiten_floor(const psgd_precond *self, int64_t n, whitened_pair *w)
{
    double h = ldexp(w->h_max, -w->h_exponent), v = w->pair.B.x ? ldexp(w->v_max, -w->v_exponent) : 1;
    double floor = v > 0 ? REAL_EPSILON * h / v : 0;
    if (floor > 0 && w->pair.B.x) la_axpy(n, (real)floor, w->pair.B.x, w->pair.A.x);
    if (floor > 0 && !w->pair.B.x) add_noise(self, n, (real)floor, w->pair.A.x);
    return w->pair.B.x ? 0 : ldexp(floor, w->h_exponent);
}

void whiten_range(int64_t n, whitened_pair *w)
{
    real max = la_max_abs(n, w->pair.A.x);
    if (!isfinite((double)max)) return;
    int e = exponent_of(max, INPUT_LIMIT);
    scale_down(n, e, w->pair.A.x);
    w->h_exponent += e;
}

psgd_status whiten_images(psgd_precond *self, rule_images images, int64_t count, whitened_pair *w)
{
    group *root = self->root;
    view A = w->pair.A, B = w->pair.B;
    double damping = self->settings.damping;
    bool applied = images != IMAGES_WHITENED;
    group_image of_h = applied ? IMAGE_P : IMAGE_Q, of_v = applied ? IMAGE_IDENTITY : IMAGE_INVERSE;
    if (applied) {
        whiten_floor(self, count * self->n, w);
        root->ops->act(root, ACT_MUL, A);
        whiten_range(count * self->n, w);
        root->ops->act(root, ACT_MUL_T, A);
    } else if (B.x) {
        psgd__group_whiten(root, A, B);
    } else {
        root->ops->act(root, ACT_MUL, A);
    }
    PSGD_TRY(whiten_level(count * self->n, B.x ? 0 : sqrt(psgd__group_energy(root, of_v)), w));
    if (!B.x) {
        w->pair.gram[of_h] = ldexp(damping * damping * (double)count, -2 * w->exponent);
        w->pair.gram[of_v] = -ldexp((double)count, -2 * w->exponent);
    }
    return PSGD_OK;
}
