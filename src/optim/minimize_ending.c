/* Whether a wrong gradient explains why nothing lower was found, or why it is small where f is not flat: the slope
 * along -g by differences of values, with two step sizes that must agree with each other. Four values. */
#include "optim/minimize.h"

#include <float.h>
#include <math.h>

static psgd_status slope_by_difference(minimizer *self, double e, double *slope, double *noise)
{
    double above, below;
    for (int64_t i = 0; i < self->n; i++) self->x_next[i] = self->x[i] + e * self->d[i];
    psgd__minimizer_project(self, self->x_next);
    PSGD_TRY(psgd__minimizer_evaluate(self, self->x_next, &above, NULL));
    for (int64_t i = 0; i < self->n; i++) self->x_next[i] = self->x[i] - e * self->d[i];
    psgd__minimizer_project(self, self->x_next);
    PSGD_TRY(psgd__minimizer_evaluate(self, self->x_next, &below, NULL));
    *slope = (above - below) / (2 * e);
    *noise = 4 * DBL_EPSILON * fabs(self->now.value) / e;
    return PSGD_OK;
}

psgd_status psgd__minimizer_suspect(minimizer *self, bool *wrong)
{
    double size = 0, max = 0, near, far, noise, more;
    for (int64_t i = 0; i < self->n; i++) {
        self->d[i] = self->mask && self->mask[i] == 0 ? 0 : -self->g[i];
        max = fmax(max, fabs(self->d[i]));
    }
    *wrong = false;
    if (!(max > 0)) return PSGD_OK;
    for (int64_t i = 0; i < self->n; i++) size = fmax(size, fabs(self->x[i]) * fabs(self->d[i]) / max);
    double e = cbrt(DBL_EPSILON) * fmax(size, 1e-2) / max, claimed = minimize_dot(self->n, self->g, self->d);
    PSGD_TRY(slope_by_difference(self, e, &near, &noise));
    PSGD_TRY(slope_by_difference(self, 3 * e, &far, &more));
    double largest = fmax(fabs(claimed), fabs(near));
    bool agree = isfinite(near) && isfinite(far) && fabs(near - far) + noise < 0.05 * largest;
    *wrong = agree && fabs(near - claimed) > 0.2 * largest;
    return PSGD_OK;
}
