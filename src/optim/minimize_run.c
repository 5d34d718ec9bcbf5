/* The iteration of psgd_minimize: a direction, a line search, a pair for P, until the gradient is small or nothing
 * lower is found. */
#include "optim/minimize.h"
#include "optim/search.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    MAX_TRIALS = 40, /* evaluations of one line search */
    PATIENCE = 300,  /* evaluations without progress, over at least MIN_STEPS steps */
    MIN_STEPS = 5,
    LONG_SEARCH = 10,  /* evaluations of an iteration that raise doubts about the gradient */
    MAX_SUSPICIONS = 3 /* iterations in a row with a gradient that is wrong along itself */
};

static const double DECREASE = 1e-4, CURVATURE = 0.9;

static psgd_status along(void *data, double a, double *value, double *slope)
{
    minimizer *self = data;
    for (int64_t i = 0; i < self->n; i++) self->x_next[i] = self->x[i] + a * self->d[i];
    psgd__minimizer_project(self, self->x_next);
    PSGD_TRY(psgd__minimizer_evaluate(self, self->x_next, value, self->g_next));
    *slope = minimize_dot(self->n, self->g_next, self->d);
    return PSGD_OK;
}

/* Along the projection of x + a d, where bounds are met before the first trial: backtracking on the decrease that g
 * promises for the projected step. */
static psgd_status search_bent(minimizer *self, line_search *s)
{
    double a = s->first, value, slope;
    s->found = false;
    for (int k = 0; k < MAX_TRIALS && !s->found; k++) {
        PSGD_TRY(along(self, a, &value, &slope));
        double promised = 0;
        for (int64_t i = 0; i < self->n; i++) promised += self->g[i] * (self->x_next[i] - self->x[i]);
        if (!(promised < 0)) return PSGD_OK;
        s->found = isfinite(value) && isfinite(slope) && value <= self->now.value + DECREASE * promised + s->noise;
        s->reached = value;
        double fitted = 0.5 * promised / (self->now.value + promised - value) * a; /* of the parabola */
        a = isfinite(value) && fitted > 0 ? fmin(fmax(fitted, 0.1 * a), 0.5 * a) : 0.1 * a;
    }
    return PSGD_OK;
}

/* Moves to the point that the search has left in x_next, g_next. The gain is the decrease by the trapezoidal rule: near
 * the minimum differences of values are rounding. */
static psgd_status accept(minimizer *self, double value, double norm, double *gain)
{
    int64_t n = self->n;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        self->p[i] = self->x_next[i] - self->x[i];
        self->hp[i] = self->g_next[i] - self->g[i];
        sum -= 0.5 * self->p[i] * (self->g[i] + self->g_next[i]);
    }
    double *x = self->x, *g = self->g;
    self->x = self->x_next;
    self->g = self->g_next;
    self->x_next = x;
    self->g_next = g;
    self->last_gain = self->now.value - value;
    self->last_claim = sum;
    self->now.value = value;
    self->now.gradient_norm = norm;
    *gain = sum;
    return psgd__secant_step(&self->P, self->p, self->hp);
}

static int trials(const minimizer *self)
{
    int64_t left = psgd__minimizer_calls_left(self);
    return left < MAX_TRIALS ? (int)left : MAX_TRIALS;
}

static psgd_status search(minimizer *self, double first, bool *moved, double *gain)
{
    double slope = minimize_dot(self->n, self->g, self->d), room = psgd__minimizer_room(self);
    *moved = false;
    *gain = 0;
    if (!(slope < 0) || !isfinite(slope)) return PSGD_OK;
    line_search s = {.value = self->now.value,
                     .slope = slope,
                     .first = first,
                     .decrease = DECREASE,
                     .curvature = CURVATURE,
                     .longest = room,
                     .max = trials(self),
                     .noise = 10 * DBL_EPSILON * fabs(self->now.value)};
    if (s.max <= 0) return PSGD_OK;
    PSGD_TRY(room < first ? search_bent(self, &s) : psgd__line_search(&s, along, self));
    double norm = psgd__minimizer_norm(self, self->x_next, self->g_next);
    bool lower = s.reached < self->now.value || norm < self->now.gradient_norm;
    *moved = s.found && isfinite(s.reached) && isfinite(norm) && lower;
    return *moved ? accept(self, s.reached, norm, gain) : PSGD_OK;
}

static psgd_status direction(minimizer *self, step_kind kind)
{
    if (kind == STEP_NEWTON) return psgd__minimizer_newton(self);
    psgd__secant_apply(&self->P, self->g, self->d);
    for (int64_t i = 0; i < self->n; i++) self->d[i] = -self->d[i];
    return PSGD_OK;
}

/* Without a pair the length of -g means nothing: the first trial is a step of length 1. */
static double first_length(const minimizer *self, step_kind kind)
{
    if (kind == STEP_NEWTON || self->P.count > 0) return 1;
    return fmin(1, 1 / sqrt(minimize_dot(self->n, self->d, self->d)));
}

static psgd_status try_step(minimizer *self, step_kind kind, bool *moved, double *gain)
{
    PSGD_TRY(direction(self, kind));
    return search(self, first_length(self, kind), moved, gain);
}

/* Where nothing lower is found, P starts again: with a Newton step, and at last along -g alone. */
static psgd_status iterate(minimizer *self, bool *moved)
{
    double before = psgd__minimizer_cost(self), gain;
    if (psgd__minimizer_find_free(self)) psgd__secant_mask(&self->P, self->mask);
    PSGD_TRY(try_step(self, psgd__schedule_next(&self->plan), moved, &gain));
    if (*moved) {
        psgd__schedule_note(&self->plan, gain, psgd__minimizer_cost(self) - before);
        return PSGD_OK;
    }
    psgd__secant_reset(&self->P);
    self->last_norm = 0;
    if (psgd__minimizer_has_products(self)) {
        PSGD_TRY(try_step(self, STEP_NEWTON, moved, &gain));
        if (*moved) return PSGD_OK;
        psgd__secant_reset(&self->P);
    }
    return try_step(self, STEP_QUASI, moved, &gain);
}

/* Steps of the size of rounding could go on for ever: a run must lower the value by more than that, or the gradient by
 * half. */
static bool is_stuck(minimizer *self)
{
    bool lower = self->now.value < self->mark_value - 100 * DBL_EPSILON * fabs(self->mark_value);
    if (lower || self->now.gradient_norm < 0.5 * self->mark_norm || self->now.iterations == 0) {
        self->mark_value = self->now.value;
        self->mark_norm = self->now.gradient_norm;
        self->mark_cost = (int64_t)psgd__minimizer_cost(self);
        self->mark_iteration = self->now.iterations;
        return false;
    }
    return psgd__minimizer_cost(self) - (double)self->mark_cost > PATIENCE &&
           self->now.iterations - self->mark_iteration >= MIN_STEPS;
}

/* The gradient is compared with |f|. That means nothing at a start where f is huge, and on the way to minus infinity: f
 * is still falling by some part of its size, or would if x changed by its own size. */
static bool has_converged(const minimizer *self)
{
    double size = 1 + fabs(self->now.value), tolerance = self->settings.tolerance;
    if (self->now.gradient_norm <= tolerance) return true;
    if (!(self->now.gradient_norm <= tolerance * size)) return false;
    return self->last_gain <= 1e-6 * size && psgd__minimizer_slope_by_size(self) <= 1e-4 * size;
}

static bool ended(minimizer *self)
{
    const minimize_settings *set = &self->settings;
    if (self->now.value < -1e20 * (1 + fabs(self->first_value))) {
        self->now.outcome = PSGD_UNBOUNDED;
    } else if (has_converged(self)) {
        self->now.outcome = PSGD_CONVERGED;
    } else if (self->now.iterations >= set->max_iterations) {
        self->now.outcome = PSGD_MAX_ITERATIONS_REACHED;
    } else if (psgd__minimizer_calls_left(self) == 0) {
        self->now.outcome = PSGD_MAX_EVALUATIONS_REACHED;
    } else if (self->suspicions >= MAX_SUSPICIONS || is_stuck(self)) {
        self->now.outcome = PSGD_STALLED;
    } else {
        return false;
    }
    return true;
}

/* Bounds may hide that an entry of the gradient is not finite from its norm. */
static psgd_status start(minimizer *self)
{
    double value, sum = 0;
    psgd__minimizer_project(self, self->x);
    for (int64_t i = 0; i < self->n; i++) {
        if (isfinite(self->x[i])) continue;
        return psgd__fail(PSGD_ERR_NOT_FINITE, "unknown %lld is not finite at the start", (long long)i);
    }
    PSGD_TRY(psgd__minimizer_evaluate(self, self->x, &value, self->g));
    for (int64_t i = 0; i < self->n; i++) sum += 0 * self->g[i];
    self->now.value = self->first_value = value;
    self->now.gradient_norm = psgd__minimizer_norm(self, self->x, self->g);
    if (isfinite(value) && isfinite(self->now.gradient_norm) && sum == 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NOT_FINITE, "the function or its gradient is not finite at the start");
}

/* A wrong gradient need not end in a stall: f may creep down for ever. */
static psgd_status doubt(minimizer *self, int64_t evaluations)
{
    if (evaluations < LONG_SEARCH) return PSGD_OK;
    bool wrong;
    PSGD_TRY(psgd__minimizer_suspect(self, &wrong));
    self->suspicions = wrong ? self->suspicions + 1 : 0;
    return PSGD_OK;
}

static psgd_status iterate_all(minimizer *self, psgd_progress progress, void *progress_data)
{
    while (!ended(self)) {
        bool moved;
        int64_t before = self->now.evaluations;
        PSGD_TRY(iterate(self, &moved));
        self->now.iterations++;
        if (!moved) {
            self->now.outcome = psgd__minimizer_calls_left(self) == 0 ? PSGD_MAX_EVALUATIONS_REACHED : PSGD_STALLED;
            return PSGD_OK;
        }
        PSGD_TRY(doubt(self, self->now.evaluations - before));
        if (progress && progress(progress_data, &self->now, self->n, self->x)) {
            self->now.outcome = PSGD_STOPPED;
            return PSGD_OK;
        }
    }
    return PSGD_OK;
}

/* A gradient with a constant error vanishes where f has a slope: there the last step has changed f by something else
 * than its gradients say, and not by rounding. */
static bool looks_wrong(const minimizer *self)
{
    double off = fabs(self->last_gain - self->last_claim), rounding = 1e3 * DBL_EPSILON * fabs(self->now.value);
    return self->now.iterations > 0 && off > rounding &&
           off > 0.5 * fmax(fabs(self->last_gain), fabs(self->last_claim));
}

psgd_status psgd__minimizer_run(minimizer *self, psgd_progress progress, void *progress_data)
{
    PSGD_TRY(start(self));
    PSGD_TRY(iterate_all(self, progress, progress_data));
    bool doubted = self->now.outcome == PSGD_CONVERGED && looks_wrong(self);
    if (self->now.outcome != PSGD_STALLED && !doubted) return PSGD_OK;
    bool wrong;
    PSGD_TRY(psgd__minimizer_suspect(self, &wrong));
    if (wrong) self->now.outcome = PSGD_GRADIENT_SUSPECT;
    return PSGD_OK;
}
