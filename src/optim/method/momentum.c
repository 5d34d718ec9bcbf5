/* Gradient descent with and without momentum:
 *
 *   sgd       d = g
 *   momentum  the heavy ball, u <- beta u + g, d = u; with a constant step size this is the paper's
 *             u <- beta u - mu g, theta <- theta + u
 *   nesterov  u <- beta u - mu g(theta + beta u), theta <- theta + u. The caller's parameters are y = theta + beta u,
 *             where the gradient is wanted. With w = -u / mu that is w <- beta w + g, y <- y - mu (g + beta w), and
 *             theta = y + mu beta w. */
#include "optim/method/method.h"

static void sgd_advance(const method_args *a)
{
    la_step(a->part->n, &a->rule, a->g, NULL, NULL, a->x, a->out);
}

static void momentum_advance(const method_args *a)
{
    step_rule r = a->rule;
    r.decay1 = (real)a->self->settings.momentum;
    r.gain1 = 1;
    r.ahead = a->self->kind->nesterov;
    la_step(a->part->n, &r, a->g, a->part->state, NULL, a->x, a->out);
}

static void nesterov_position(const psgd_optimizer *self, const part *p, const real *x, real *to)
{
    const real *w = p->state;
    real back = (real)(psgd_optimizer_rate(self) * self->settings.momentum);
    for (int64_t i = 0; i < p->n; i++) to[i] = x[i] + back * w[i];
}

const method_ops METHOD_OPS(sgd) = {
    .kind = {"sgd", "gradient descent", .rows = true},
    .advance = sgd_advance,
};

const method_ops METHOD_OPS(momentum) = {
    .kind = {"momentum", "heavy ball: a sum of past gradients"},
    .advance = momentum_advance,
    .arrays = 1,
};

const method_ops METHOD_OPS(nesterov) = {
    .kind = {"nesterov", "momentum with the gradient taken ahead", .nesterov = true},
    .advance = momentum_advance,
    .position = nesterov_position,
    .arrays = 1,
};
