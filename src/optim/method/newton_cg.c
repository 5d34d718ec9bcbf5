/* Truncated Newton, "newton-cg": H d = -g by conjugate gradients, stopped early, then a line search.
 *
 * Along a direction of negative curvature the iteration stops and what has been found so far, or the gradient, is used.
 * The state of a tensor is two vectors of the iteration. */
#include "la/la.h"
#include "optim/method/methods.h"
#include "optim/search.h"

#include <float.h>
#include <math.h>
#include <string.h>

static int64_t newton_cg_size(const psgd_optimizer *self, const part *p)
{
    (void)self;
    return 2 * p->n;
}

static void copy(const psgd_optimizer *self, void *const *from, void *const *to)
{
    for (int i = 0; i < self->part_count; i++) memcpy(to[i], from[i], (size_t)self->parts[i].n * sizeof(real));
}

static void scale(const psgd_optimizer *self, double c, void *const *x)
{
    for (int i = 0; i < self->part_count; i++) la_scale(self->parts[i].n, (real)c, x[i]);
}

/* The solution d and the residual r = -g - H d of the iteration; p is in v, H p in h. */
static void lists(psgd_optimizer *self)
{
    for (int i = 0; i < self->part_count; i++) {
        self->pair_v[i] = self->parts[i].state;
        self->pair_h[i] = (real *)self->parts[i].state + self->parts[i].n;
    }
}

static psgd_status solve(psgd_optimizer *self, void *const *theta)
{
    void **d = self->pair_v, **r = self->pair_h, **p = self->v, **hp = self->h;
    double loss, rr = psgd__parts_dot(self, self->gradient, self->gradient);
    double norm = sqrt(rr), goal = fmin(self->settings.cg_tolerance, sqrt(norm)) * norm;
    copy(self, self->gradient, r);
    scale(self, -1, r);
    copy(self, r, p);
    scale(self, 0, d);
    for (int64_t k = 0; k < self->settings.cg_iterations && sqrt(rr) > goal; k++) {
        PSGD_TRY(psgd__product(self, theta, self->gradient, p, &loss, hp));
        double curvature = psgd__parts_dot(self, p, hp), pp = psgd__parts_dot(self, p, p);
        if (!(curvature > (double)REAL_EPSILON * pp)) {
            if (k == 0) copy(self, p, d);
            break;
        }
        double a = rr / curvature, before = rr;
        psgd__parts_axpy(self, a, p, d);
        psgd__parts_axpy(self, -a, hp, r);
        rr = psgd__parts_dot(self, r, r);
        scale(self, rr / before, p);
        psgd__parts_axpy(self, 1, r, p);
    }
    return PSGD_OK;
}

typedef struct along {
    psgd_optimizer *self;
    void *const *from, *const *d;
} along;

static psgd_status evaluate_along(void *data, double a, double *value, double *slope)
{
    along *line = data;
    psgd_optimizer *self = line->self;
    copy(self, line->from, self->spare);
    psgd__parts_axpy(self, a, line->d, self->spare);
    PSGD_TRY(psgd__evaluate(self, self->spare, value, self->h));
    *slope = psgd__parts_dot(self, self->h, line->d);
    return PSGD_OK;
}

static psgd_status newton_cg_iterate(psgd_optimizer *self, void *const *theta, double *loss)
{
    PSGD_TRY(psgd__evaluate(self, theta, loss, self->gradient));
    double max = psgd__parts_max(self, (const void *const *)self->gradient);
    if (!isfinite(*loss) || !isfinite(max)) return psgd__optim_skip(self, "the loss or gradient is not finite");
    lists(self);
    PSGD_TRY(solve(self, theta));
    self->now.step++;
    self->now.skipped_in_row = 0;
    double slope = psgd__parts_dot(self, self->gradient, self->pair_v);
    if (!(slope < 0)) return PSGD_OK;

    line_search s = {.value = *loss,
                     .slope = slope,
                     .first = 1,
                     .decrease = 1e-4,
                     .curvature = 0.9,
                     .longest = HUGE_VAL,
                     .max = 40,
                     .noise = 4 * (double)REAL_EPSILON * fabs(*loss)};
    along line = {.self = self, .from = theta, .d = self->pair_v};
    PSGD_TRY(psgd__line_search(&s, evaluate_along, &line));
    if (s.found) copy(self, self->spare, theta);
    return PSGD_OK;
}

const method_ops METHOD_OPS(newton_cg) = {
    .kind = {.name = "newton-cg",
             .summary = "Newton steps by conjugate gradients, with a line search",
             .lr = 1,
             .searches = true},
    .size = newton_cg_size,
    .iterate = newton_cg_iterate,
};
