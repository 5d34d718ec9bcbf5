/* RMSProp: s^2 <- beta2 s^2 + (1 - beta2) g^2, d = g / (s + epsilon). The diagonal Fisher type preconditioner with a
 * moving average for the expectation (paper, section 6.1). */
#include "optim/method/methods.h"

static int64_t rmsprop_size(const psgd_optimizer *self, const part *p)
{
    (void)self;
    return p->n;
}

static void rmsprop_advance(const method_args *a)
{
    step_rule r = a->rule;
    r.decay2 = a->self->settings.beta2;
    r.gain2 = 1 - r.decay2;
    r.correct1 = r.correct2 = 1;
    r.epsilon = (real)a->self->settings.epsilon;
    la_step_rms(a->part->n, &r, a->g, a->part->state, a->x, a->out);
}

const method_ops METHOD_OPS(rmsprop) = {
    .kind = {.name = "rmsprop",
             .summary = "diagonal: divide by the root of the mean squared gradient",
             .lr = 0.001,
             .beta2 = 0.99},
    .advance = rmsprop_advance,
    .size = rmsprop_size,
};
