/* The v of a fit.
 *
 * Newton's P solves E[hh'] = P^-1 E[vv'] P^-1 with h = Hv, and |H|^-1 does so for v of covariance I, the paper's, and
 * of covariance P alike. The latter, v = Q'x with x of covariance I, makes the fit invariant: the pair that it sees,
 * (QHQ')x and x, does not depend on the scales of the parameters, so directions of small curvature are not drowned in
 * the sampling noise of those of large curvature. But where H is indefinite its solution is not unique, and where H has
 * a null space nothing bounds P there; so option probe mixed takes either with equal chance, the same for all tensors
 * of a step. */
#include "core/rng.h"
#include "la/la.h"
#include "la/array/normal.h"
#include "optim/method/method.h"

static void draw_normal(const psgd_optimizer *self, int tensor, const psgd_rows *rows, real *v)
{
    const part *p = &self->parts[tensor];
    int64_t pairs = self->settings.fit.pairs, n = psgd__part_width(p);
    rng_stream stream = psgd__rng_stream((uint64_t)self->settings.seed, RNG_PROBE,
                                         (uint64_t)(self->settings.first_tensor + (self->joint ? 0 : tensor)),
                                         (uint64_t)(self->joint ? self->now.step : p->steps));
    if (rows) {
        for (int64_t i = 0; i < rows->count; i++) la_normal(&stream, rows->index[i] * n, n, v + i * n);
    } else if (!self->joint) {
        la_normal(&stream, 0, p->n * pairs, v);
    } else {
        for (int64_t k = 0; k < pairs; k++) la_normal(&stream, k * self->total + p->from, p->n, v + k * p->n);
    }
}

/* v <- Q'v, as far as Q is here. */
static void precondition(const psgd_optimizer *self, int tensor, const psgd_rows *rows, real *v)
{
    const part *p = &self->parts[tensor];
    if (rows) {
        PSGD_TYPED(psgd__precond_apply_rows)(p->precond, PSGD_APPLY_QT, rows, v, v);
        return;
    }
    for (int64_t k = 0; k < self->settings.fit.pairs; k++) {
        PSGD_TYPED(psgd__precond_apply)(p->precond, PSGD_APPLY_QT, v + k * p->n, v + k * p->n);
    }
}

/* Joint tensors draw what one tensor of all of them would, and rows, which may be NULL, what the whole tensor would. */
psgd_status PSGD_TYPED(psgd__optim_draw)(const psgd_optimizer *self, int tensor, const psgd_rows *rows, void *v)
{
    draw_normal(self, tensor, rows, v);
    if (!psgd__optim_probes_p(self)) return PSGD_OK;
    PSGD_TRY(psgd__async_publish((psgd_optimizer *)self)); /* Q of the coming step, as workers and curvature ranks do */
    if (optim_is_mine(self, &self->parts[tensor])) precondition(self, tensor, rows, v);
    return psgd__ranks_share_probe(self, tensor, v);
}
