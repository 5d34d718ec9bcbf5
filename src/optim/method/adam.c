/* Adam: RMSProp with a moving average of gradients, both divided by 1 - beta^t so that they start without bias. */
#include "optim/method/adam.h"
#include "optim/method/methods.h"

#include <math.h>

int64_t psgd__adam_size(const psgd_optimizer *self, const part *p)
{
    (void)self;
    return 2 * p->n;
}

void psgd__adam_advance(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    double t = (double)a->step;
    step_rule r = a->rule;
    r.decay1 = (real)set->beta1;
    r.gain1 = (real)(1 - set->beta1);
    r.correct1 = (real)(1 / (1 - pow(set->beta1, t)));
    r.decay2 = set->beta2;
    r.gain2 = 1 - set->beta2;
    r.correct2 = (real)(1 / sqrt(1 - pow(set->beta2, t)));
    r.epsilon = (real)set->epsilon;
    real *u = a->part->state;
    la_step_adam(a->part->n, &r, a->g, u, u + a->part->n, a->x, a->out);
}

const method_ops METHOD_OPS(adam) = {
    .kind = {.name = "adam", .summary = "rmsprop with momentum, corrected at the start", .lr = 0.001, .beta2 = 0.999},
    .advance = psgd__adam_advance,
    .size = psgd__adam_size,
};
