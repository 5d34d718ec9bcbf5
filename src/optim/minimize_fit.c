/* The fit of Q inside psgd_minimize.
 *
 * Pairs (v, Hv) with v = Q'w: then B = Q^-T v = w and A = QHQ'w, and the update R = AA' - BB' is (QHQ')^2 - I over a
 * full set of w. At the optimum both are I, however badly H is scaled, so the fit converges as fast on a bad problem as
 * on a good one. The step is a quarter of what keeps Q invertible, 1 / (2 ||AA' + BB'||): near the optimum, where that
 * norm is 2, it makes the error of a dense Q quadratic in the one before.
 *
 * Where there are as many pairs as unknowns, the products with unit vectors are all of H, and pairs for each new Q
 * follow from them without another evaluation. */
#include "optim/minimize.h"
#include "precond/precond.h"
#include "core/rng.h"
#include "core/status.h"
#include "la/array/normal.h"

#include <float.h>
#include <math.h>
#include <string.h>

static double largest(int64_t n, const double *x)
{
    double max = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(x[i]) <= max)) max = fabs(x[i]);
    }
    return max;
}

/* h <- Hv at x, exact or by central differences. The largest change of an unknown is the cube root of
 * epsilon, relative to its own size or, where that is small, to what P says is the scale of things. */
static psgd_status product(minimizer *self, const double *v, double *h)
{
    int64_t n = self->n;
    self->now.products++;
    if (self->function->product) {
        int code = self->function->product(self->function->data, n, self->x, v, h);
        return code == 0 ? PSGD_OK : psgd__fail(PSGD_ERR_CALLBACK, "the function's product reported failure %d", code);
    }
    double size = 0, max = largest(n, v), value;
    for (int64_t i = 0; i < n; i++) {
        if (v[i] != 0) size = fmax(size, fabs(self->x[i]) * fabs(v[i]) / max);
    }
    double e = cbrt(DBL_EPSILON) * fmax(size, 1e-2) / max;
    for (int64_t i = 0; i < n; i++) self->probe[i] = self->x[i] + e * v[i];
    PSGD_TRY(psgd__minimizer_evaluate(self, self->probe, &value, h));
    for (int64_t i = 0; i < n; i++) self->probe[i] = self->x[i] - e * v[i];
    PSGD_TRY(psgd__minimizer_evaluate(self, self->probe, &value, self->g_next));
    for (int64_t i = 0; i < n; i++) h[i] = (h[i] - self->g_next[i]) / (2 * e);
    return PSGD_OK;
}

/* All of H, made symmetric: rounding of differences is not. */
static psgd_status all_products(minimizer *self)
{
    int64_t n = self->n;
    memset(self->d, 0, (size_t)n * sizeof(double));
    for (int64_t j = 0; j < n; j++) {
        self->d[j] = 1;
        psgd_status status = product(self, self->d, self->H + j * n);
        self->d[j] = 0;
        PSGD_TRY(status);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            double mean = (self->H[i * n + j] + self->H[j * n + i]) / 2;
            self->H[i * n + j] = self->H[j * n + i] = mean;
        }
    }
    return PSGD_OK;
}

/* The largest eigenvalue of the sum of aa' + bb', from below, by a few power iterations; near enough with a margin. */
static double norm_of_sum(minimizer *self)
{
    int64_t n = self->n, k = self->pairs;
    double *y = self->power, *z = self->probe, value = 0;
    for (int64_t i = 0; i < n; i++) y[i] = 1 + 0.1 * (double)(i % 7);
    for (int pass = 0; pass < 8; pass++) {
        double scale = 1 / sqrt(minimize_dot(n, y, y));
        for (int64_t i = 0; i < n; i++) {
            y[i] *= scale;
            z[i] = 0;
        }
        for (int64_t j = 0; j < k; j++) {
            double p = minimize_dot(n, self->a + j * n, y), q = minimize_dot(n, self->b + j * n, y);
            for (int64_t i = 0; i < n; i++) z[i] += p * self->a[j * n + i] + q * self->b[j * n + i];
        }
        double next = sqrt(minimize_dot(n, z, z));
        memcpy(y, z, (size_t)n * sizeof(double));
        bool settled = fabs(next - value) < 0.02 * next;
        value = next;
        if (settled) break;
    }
    return value;
}

/* How far A is from B, as the error of the fit: || AA' - BB' || is at most this. */
static double distance(const minimizer *self)
{
    int64_t n = self->n;
    double max = 0;
    for (int64_t i = 0; i < n; i++) {
        double aa = 0, ab = 0;
        for (int64_t j = 0; j < self->pairs; j++) {
            aa += self->a[j * n + i] * self->a[j * n + i];
            ab += self->b[j * n + i] * self->b[j * n + i];
        }
        max = fmax(max, fabs(aa - ab));
    }
    return max;
}

/* The pairs for the current Q from H, and A and B. */
static psgd_status pairs_of_h(minimizer *self)
{
    int64_t n = self->n;
    memset(self->b, 0, (size_t)(n * n) * sizeof(double));
    for (int64_t j = 0; j < n; j++) {
        double *v = self->v + j * n, *h = self->h + j * n;
        self->b[j * n + j] = 1;
        PSGD_TRY(psgd_precond_apply(self->precond, PSGD_APPLY_QT, self->b + j * n, v));
        for (int64_t i = 0; i < n; i++) h[i] = minimize_dot(n, self->H + i * n, v);
        PSGD_TRY(psgd_precond_apply(self->precond, PSGD_APPLY_Q, h, self->a + j * n));
    }
    return PSGD_OK;
}

static psgd_status drawn_pairs(minimizer *self)
{
    int64_t n = self->n;
    rng_stream stream = psgd__rng_stream((uint64_t)self->settings.seed, RNG_PROBE, 0, (uint64_t)self->now.iterations);
    psgd__la_normal_f64(&stream, 0, n * self->pairs, self->b);
    for (int64_t j = 0; j < self->pairs; j++) {
        double *v = self->v + j * n, *h = self->h + j * n;
        PSGD_TRY(psgd_precond_apply(self->precond, PSGD_APPLY_QT, self->b + j * n, v));
        PSGD_TRY(product(self, v, h));
        PSGD_TRY(psgd_precond_apply(self->precond, PSGD_APPLY_Q, h, self->a + j * n));
    }
    return PSGD_OK;
}

static double caution(const minimizer *self)
{
    return self->settings.noisy ? 0.2 : 1;
}

/* One update with c = 1 / (2 ||AA' + BB'||); the plain rule's own factor is 2 step / pairs. */
static psgd_status update(minimizer *self)
{
    double c = 0.5 * caution(self) / norm_of_sum(self);
    if (!isfinite(c)) return PSGD_OK;
    PSGD_TRY(psgd_precond_set_step(self->precond, c * (double)self->pairs / 2));
    psgd_status status = psgd_precond_update_pairs(self->precond, self->pairs, self->v, self->h);
    return status == PSGD_ERR_NOT_FINITE ? PSGD_OK : status;
}

/* Q <- c I by a product with the gradient: P g is then as long as a Newton step along g would be. */
psgd_status psgd__minimizer_start_again(minimizer *self)
{
    int64_t n = self->n;
    double size = sqrt(minimize_dot(n, self->g, self->g));
    if (!(size > 0)) return PSGD_OK;
    for (int64_t i = 0; i < n; i++) self->d[i] = self->g[i] / size;
    PSGD_TRY(product(self, self->d, self->h));
    double curvature = sqrt(minimize_dot(n, self->h, self->h));
    if (!isfinite(curvature) || curvature == 0) curvature = size;
    double scale = fmin(fmax(sqrt(1 / curvature), 1e-15), 1e15);
    if (self->Q) {
        memset(self->Q, 0, (size_t)(n * n) * sizeof(double));
        for (int64_t i = 0; i < n; i++) self->Q[i * n + i] = scale;
    } else {
        psgd__precond_reset_f64(self->precond, scale);
    }
    self->fitted = true;
    return PSGD_OK;
}

psgd_status psgd__minimizer_fit(minimizer *self)
{
    if (!self->fitted) PSGD_TRY(psgd__minimizer_start_again(self));
    if (!self->whole) {
        PSGD_TRY(drawn_pairs(self));
        return update(self);
    }
    PSGD_TRY(all_products(self));
    if (!isfinite(largest(self->n * self->n, self->H))) return PSGD_OK;
    if (self->Q) {
        small_fit f = {.n = self->n, .updates = self->settings.updates, .caution = caution(self), .H = self->H};
        psgd__minimizer_small_fit(&f, self->Q, self->spare);
        return PSGD_OK;
    }
    for (int64_t k = 0; k < self->settings.updates; k++) {
        PSGD_TRY(pairs_of_h(self));
        if (distance(self) < MINIMIZE_FITTED) break;
        PSGD_TRY(update(self));
    }
    return PSGD_OK;
}
