/* The heavy ball, "momentum": u <- beta u + g, d = u.
 *
 * With a constant step size this is the paper's u <- beta u - mu g, theta <- theta + u. */
#include "optim/method/methods.h"

static int64_t momentum_size(const psgd_optimizer *self, const part *p)
{
    (void)self;
    return p->n;
}

static void momentum_advance(const method_args *a)
{
    step_rule r = a->rule;
    r.decay1 = (real)a->self->settings.momentum;
    r.gain1 = 1;
    la_step_momentum(a->part->n, &r, a->g, a->part->state, a->x, a->out);
}

const method_ops METHOD_OPS(momentum) = {
    .kind = {.name = "momentum", .summary = "heavy ball: a sum of past gradients", .lr = 0.01, .momentum = 0.9},
    .advance = momentum_advance,
    .size = momentum_size,
};
