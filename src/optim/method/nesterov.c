/* Nesterov's momentum, "nesterov": u <- beta u - mu g(theta + beta u), theta <- theta + u.
 *
 * The caller's parameters are y = theta + beta u, where the gradient is wanted. With w = -u / mu that is
 * w <- beta w + g, y <- y - mu (g + beta w), and theta = y + mu beta w. */
#include "optim/method/methods.h"

static int64_t nesterov_size(const psgd_optimizer *self, const part *p)
{
    (void)self;
    return p->n;
}

static void nesterov_advance(const method_args *a)
{
    step_rule r = a->rule;
    r.decay1 = (real)a->self->settings.momentum;
    r.gain1 = 1;
    r.ahead = true;
    la_step_momentum(a->part->n, &r, a->g, a->part->state, a->x, a->out);
}

static void nesterov_position(const psgd_optimizer *self, const part *p, const real *x, real *to)
{
    const real *w = p->state;
    real back = (real)(psgd_optimizer_rate(self) * self->settings.momentum);
    for (int64_t i = 0; i < p->n; i++) to[i] = x[i] + back * w[i];
}

const method_ops METHOD_OPS(nesterov) = {
    .kind = {.name = "nesterov",
             .summary = "momentum with the gradient taken ahead",
             .lr = 0.01,
             .momentum = 0.9,
             .nesterov = true},
    .advance = nesterov_advance,
    .size = nesterov_size,
    .position = nesterov_position,
};
