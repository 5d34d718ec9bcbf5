/* Calls of the caller's function, and Hv by differences of gradients where it has no product. */
#include "optim/minimize.h"

#include <float.h>
#include <math.h>

psgd_status psgd__minimizer_evaluate(minimizer *self, const double *x, double *value, double *gradient)
{
    self->now.evaluations++;
    if (gradient) self->now.gradients++;
    int code = self->function->evaluate(self->function->data, self->n, x, value, gradient);
    return code == 0 ? PSGD_OK : psgd__fail(PSGD_ERR_CALLBACK, "the function reported failure %d", code);
}

static bool is_exact(const minimizer *self)
{
    return self->function->product && self->settings.products == PRODUCTS_AUTO;
}

bool psgd__minimizer_has_products(const minimizer *self)
{
    return self->settings.products != PRODUCTS_NONE;
}

double psgd__minimizer_cost(const minimizer *self)
{
    const psgd_result *now = &self->now;
    return (double)now->evaluations + (double)now->gradients + (is_exact(self) ? (double)now->products : 0);
}

int64_t psgd__minimizer_calls_left(const minimizer *self)
{
    int64_t used = self->now.evaluations + (is_exact(self) ? self->now.products : 0);
    return used < self->settings.max_evaluations ? self->settings.max_evaluations - used : 0;
}

/* The largest change of an unknown is the square root of epsilon, relative to the larger unknowns along v. */
static double difference(const minimizer *self, const double *v)
{
    double size = 0, max = 0;
    for (int64_t i = 0; i < self->n; i++) max = fmax(max, fabs(v[i]));
    for (int64_t i = 0; i < self->n; i++) {
        if (v[i] != 0) size = fmax(size, fabs(self->x[i]) * (fabs(v[i]) / max));
    }
    return 2 * sqrt(DBL_EPSILON) * fmax(size, 1e-2) / max;
}

psgd_status psgd__minimizer_product(minimizer *self, const double *v, double *h)
{
    int64_t n = self->n;
    self->now.products++;
    if (is_exact(self)) {
        int code = self->function->product(self->function->data, n, self->x, v, h);
        return code == 0 ? PSGD_OK : psgd__fail(PSGD_ERR_CALLBACK, "the function's product reported failure %d", code);
    }
    double e = difference(self, v), value;
    for (int64_t i = 0; i < n; i++) self->x_next[i] = self->x[i] + e * v[i];
    PSGD_TRY(psgd__minimizer_evaluate(self, self->x_next, &value, h));
    for (int64_t i = 0; i < n; i++) h[i] = (h[i] - self->g[i]) / e;
    return PSGD_OK;
}
