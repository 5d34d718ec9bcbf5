/* Equilibrated SGD: s^2 <- beta2 s^2 + (1 - beta2) (Hv)^2 on update steps, d = g / (s + epsilon). The diagonal Newton
 * type preconditioner in closed form (paper, section 6.2; Dauphin et al., 2015). */
#include "optim/method/methods.h"

#include <math.h>

/* s, then the count of updates. */
static int64_t esgd_size(const psgd_optimizer *self, const part *p)
{
    (void)self;
    return p->n + 1;
}

static void esgd_advance(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    int64_t n = a->part->n;
    real *s = a->part->state, *updates = s + n;
    if (a->h) {
        la_root_mean(n, set->beta2, 1 - set->beta2, a->h, s);
        *updates += 1;
    }
    step_rule r = a->rule;
    r.correct1 = 1;
    r.correct2 = (real)(1 / sqrt(1 - pow(set->beta2, fmax(1, (double)*updates))));
    r.epsilon = (real)set->epsilon;
    la_step_divide(n, &r, a->g, s, a->x, a->out);
}

const method_ops METHOD_OPS(esgd) = {
    .kind = {.name = "esgd",
             .summary = "equilibrated: divide by the root of the mean squared Hessian-vector product",
             .lr = 0.01,
             .beta2 = 0.999,
             .products = true},
    .advance = esgd_advance,
    .size = esgd_size,
};
