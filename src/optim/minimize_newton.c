/* A step of truncated Newton: conjugate gradients on Hd = -g, preconditioned by P, until the residual is a fraction of
 * g that shrinks as fast as g does (Eisenstat and Walker's second choice). Every product is a pair that P learns from.
 * Where the curvature is negative, the step goes along that direction as if it were positive, and the solve ends. */
#include "optim/minimize.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MIN_TRIAL = 10 };

static const double MAX_FORCING = 0.5, FACTOR = 0.9, POWER = 1.618, REMEMBERED = 0.1;

/* A trial of Newton steps may cost a fifth of what has been spent so far. */
static int64_t max_products(const minimizer *self)
{
    int64_t max = self->n >= 500 ? 1000 : self->n < 10 ? 20 : 2 * self->n, left = psgd__minimizer_calls_left(self);
    if (psgd__schedule_is_trial(&self->plan)) {
        int64_t fair = (int64_t)(psgd__minimizer_cost(self) / 5);
        if (fair < MIN_TRIAL) fair = MIN_TRIAL;
        if (fair < max) max = fair;
    }
    return left < max ? left : max;
}

/* The fraction of ||g|| at which the solve ends. */
static double forcing(minimizer *self)
{
    double norm = self->now.gradient_norm, before = self->forcing, eta = MAX_FORCING;
    if (self->last_norm > 0) {
        eta = FACTOR * pow(norm / self->last_norm, POWER);
        double kept = FACTOR * pow(before, POWER);
        if (kept > REMEMBERED) eta = fmax(eta, kept);
    }
    double enough = 0.5 * self->settings.tolerance * (1 + fabs(self->now.value)) / norm;
    self->last_norm = norm;
    self->forcing = fmin(fmax(eta, enough), MAX_FORCING);
    return self->forcing;
}

static void hide_fixed(const minimizer *self, double *x)
{
    if (!self->mask) return;
    for (int64_t i = 0; i < self->n; i++) x[i] *= self->mask[i];
}

/* One product and what follows from it; true where the solve ends. */
static psgd_status advance(minimizer *self, double *ry, double small, bool first, bool *done)
{
    int64_t n = self->n;
    double *p = self->p, *hp = self->hp, *r = self->r;
    *done = true;
    PSGD_TRY(psgd__minimizer_product(self, p, hp));
    hide_fixed(self, hp);
    double curvature = minimize_dot(n, p, hp), hh = minimize_dot(n, hp, hp), pp = minimize_dot(n, p, p);
    if (!isfinite(curvature) || !isfinite(hh)) {
        if (first) memcpy(self->d, p, (size_t)n * sizeof *p);
        return PSGD_OK;
    }
    psgd__secant_learn(&self->P, p, hp);
    bool flat = fabs(curvature) <= DBL_EPSILON * sqrt(pp) * sqrt(hh);
    double a = *ry / fabs(curvature);
    if (flat || !isfinite(a)) {
        if (first) memcpy(self->d, p, (size_t)n * sizeof *p);
        return PSGD_OK;
    }
    for (int64_t i = 0; i < n; i++) self->d[i] += a * p[i];
    if (curvature < 0) return PSGD_OK;
    for (int64_t i = 0; i < n; i++) r[i] -= a * hp[i];
    if (sqrt(minimize_dot(n, r, r)) <= small) return PSGD_OK;
    psgd__secant_apply(&self->P, r, self->y);
    double next = minimize_dot(n, r, self->y), b = next / *ry;
    if (!(next > 0) || !isfinite(b)) return PSGD_OK;
    for (int64_t i = 0; i < n; i++) p[i] = self->y[i] + b * p[i];
    *ry = next;
    *done = false;
    return PSGD_OK;
}

psgd_status psgd__minimizer_newton(minimizer *self)
{
    int64_t n = self->n, max = max_products(self);
    double small = forcing(self);
    for (int64_t i = 0; i < n; i++) self->r[i] = -self->g[i];
    hide_fixed(self, self->r);
    small *= sqrt(minimize_dot(n, self->r, self->r));
    memset(self->d, 0, (size_t)n * sizeof(double));
    psgd__secant_apply(&self->P, self->r, self->y);
    memcpy(self->p, self->y, (size_t)n * sizeof(double));
    double ry = minimize_dot(n, self->r, self->y);
    bool done = !(ry > 0) || !isfinite(ry);
    for (int64_t k = 0; k < max && !done; k++) PSGD_TRY(advance(self, &ry, small, k == 0, &done));
    return psgd__secant_commit(&self->P);
}
