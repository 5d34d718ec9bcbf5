/* Truncated Newton, "newton-cg": H d = -g by conjugate gradients, stopped early, then a line search.
 *
 * Along a direction of negative curvature the iteration stops and what has been found so far, or the gradient, is used.
 * The state of a tensor is two vectors of the iteration. */
#include "optim/method/method.h"

#include <float.h>
#include <math.h>

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
    psgd__parts_copy(self, self->gradient, r);
    psgd__parts_scale(self, -1, r);
    psgd__parts_copy(self, r, p);
    psgd__parts_scale(self, 0, d);
    for (int64_t k = 0; k < self->settings.cg_iterations && sqrt(rr) > goal; k++) {
        PSGD_TRY(psgd__product(self, theta, self->gradient, p, &loss, hp));
        double curvature = psgd__parts_dot(self, p, hp), pp = psgd__parts_dot(self, p, p);
        if (!(curvature > (double)REAL_EPSILON * pp)) {
            if (k == 0) psgd__parts_copy(self, p, d);
            break;
        }
        double a = rr / curvature, before = rr;
        psgd__parts_axpy(self, a, p, d);
        psgd__parts_axpy(self, -a, hp, r);
        rr = psgd__parts_dot(self, r, r);
        psgd__parts_scale(self, rr / before, p);
        psgd__parts_axpy(self, 1, r, p);
    }
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

    line_search s = {.value = *loss, .slope = slope, .first = 1};
    PSGD_TRY(psgd__search(self, theta, self->pair_v, &s));
    if (s.found) psgd__parts_copy(self, self->spare, theta);
    return PSGD_OK;
}

const method_ops METHOD_OPS(newton_cg) = {
    .kind = {"newton-cg", "Newton steps by conjugate gradients, with a line search", .searches = true},
    .arrays = 2,
    .iterate = newton_cg_iterate,
};
