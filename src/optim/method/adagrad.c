/* Adagrad: s^2 <- s^2 + g^2, d = g / (s + epsilon). The diagonal Fisher type preconditioner with a sum for the
 * expectation (paper, section 6.1). */
#include "optim/method/methods.h"

static int64_t adagrad_size(const psgd_optimizer *self, const part *p)
{
    (void)self;
    return p->n;
}

static void adagrad_advance(const method_args *a)
{
    step_rule r = a->rule;
    r.decay2 = r.gain2 = 1;
    r.correct1 = r.correct2 = 1;
    r.epsilon = (real)a->self->settings.epsilon;
    la_step_rms(a->part->n, &r, a->g, a->part->state, a->x, a->out);
}

const method_ops METHOD_OPS(adagrad) = {
    .kind = {.name = "adagrad",
             .summary = "diagonal: divide by the root of all squared gradients",
             .lr = 0.01,
             .rows = true},
    .advance = adagrad_advance,
    .size = adagrad_size,
};
