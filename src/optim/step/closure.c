/* The bound objective: evaluations, Hessian-vector products, and an iteration with them. */
#include "optim/method/method.h"

#include <float.h>
#include <math.h>

psgd_status psgd__evaluate(psgd_optimizer *self, void *const *theta, double *loss, void *const *gradient)
{
    self->now.evaluations++;
    int code = self->objective.gradient(self->objective.data, (const void *const *)theta, loss, gradient);
    psgd_status status = PSGD_OK;
    if (code) status = psgd__fail(PSGD_ERR_CALLBACK, "the objective's gradient reported failure %d", code);
    return psgd__ranks_evaluated(self, status, loss, gradient, NULL);
}

/* (g(theta + e v) - g(theta)) / e. e is such that the largest change of a parameter is the root of epsilon, relative to
 * the largest parameter or to 1: truncation and cancellation then cost half the digits each. */
static psgd_status difference(psgd_optimizer *self, void *const *theta, void *const *g, void *const *v, void *const *h)
{
    double size = psgd__parts_max(self, (const void *const *)theta),
           max = psgd__parts_max(self, (const void *const *)v);
    double e = max > 0 && isfinite(max) ? sqrt((double)REAL_EPSILON) * (1 + size) / max : 1, ignored;
    psgd__parts_copy(self, theta, self->spare);
    psgd__parts_axpy(self, e, v, self->spare);
    PSGD_TRY(psgd__evaluate(self, self->spare, &ignored, h));
    psgd__parts_axpy(self, -1, g, h);
    psgd__parts_scale(self, 1 / e, h);
    return PSGD_OK;
}

psgd_status psgd__product(psgd_optimizer *self, void *const *theta, void *const *g, void *const *v, double *loss,
                          void *const *h)
{
    self->now.products++;
    if (!self->objective.product) return difference(self, theta, g, v, h);
    int code = self->objective.product(self->objective.data, (const void *const *)theta, (const void *const *)v, loss,
                                       g, h);
    psgd_status status = PSGD_OK;
    if (code) status = psgd__fail(PSGD_ERR_CALLBACK, "the objective's product reported failure %d", code);
    return psgd__ranks_evaluated(self, status, loss, g, h);
}

typedef struct along {
    psgd_optimizer *self;
    void *const *theta, *const *d;
} along;

static psgd_status evaluate_along(void *data, double a, double *value, double *slope)
{
    const along *line = data;
    psgd_optimizer *self = line->self;
    psgd__parts_copy(self, line->theta, self->spare);
    psgd__parts_axpy(self, a, line->d, self->spare);
    PSGD_TRY(psgd__evaluate(self, self->spare, value, self->h));
    *slope = psgd__parts_dot(self, self->h, line->d);
    return PSGD_OK;
}

psgd_status psgd__search(psgd_optimizer *self, void *const *theta, void *const *d, line_search *s)
{
    s->decrease = 1e-4;
    s->curvature = 0.9;
    s->longest = HUGE_VAL;
    s->max = 40;
    s->noise = 4 * (double)REAL_EPSILON * fabs(s->value);
    return psgd__line_search(s, evaluate_along, &(along){self, theta, d});
}

/* Loss, gradient and, with products, pairs (v, Hv) at theta. An exact product gives loss and gradient as well. */
static psgd_status evaluate_all(psgd_optimizer *self, void *const *theta, bool products, double *loss)
{
    if (!products || !self->objective.product) PSGD_TRY(psgd__evaluate(self, theta, loss, self->gradient));
    if (!products) return PSGD_OK;
    for (int i = 0; i < self->part_count; i++) PSGD_TRY(PSGD_TYPED(psgd__optim_draw)(self, i, NULL, self->v[i]));
    for (int64_t k = 0; k < self->settings.fit.pairs; k++) {
        for (int i = 0; i < self->part_count; i++) {
            self->pair_v[i] = (real *)self->v[i] + k * self->parts[i].n;
            self->pair_h[i] = (real *)self->h[i] + k * self->parts[i].n;
        }
        PSGD_TRY(psgd__product(self, theta, self->gradient, self->pair_v, loss, self->pair_h));
    }
    return PSGD_OK;
}

psgd_status PSGD_TYPED(psgd__optim_iterate)(psgd_optimizer *self, void *const *theta, double *loss)
{
    const method_ops *ops = self->ops;
    for (int i = 0; i < self->part_count; i++) self->parts[i].present = true;
    if (ops->iterate) return ops->iterate(self, theta, loss);

    bool products = psgd_optimizer_wants_product(self);
    PSGD_TRY(evaluate_all(self, theta, products, loss));
    if (!isfinite(*loss)) return psgd__optim_skip(self, "the loss is not finite");
    const void *const *g = (const void *const *)self->gradient, *const *v = (const void *const *)self->v;
    const void *const *h = (const void *const *)self->h;
    return PSGD_TYPED(psgd__optim_step)(self, theta, g, products ? v : NULL, products ? h : NULL);
}
