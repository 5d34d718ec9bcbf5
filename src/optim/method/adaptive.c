/* Methods with a divisor of its own for every parameter, d = m / (s + epsilon) or, with the option epsilon-inside,
 * m / sqrt(s^2 + epsilon^2), where epsilon is the lambda of the paper (sections 6.1 and 6.2):
 *
 *   adagrad      m = g, s^2 <- s^2 + g^2: the diagonal Fisher type preconditioner, a sum for the expectation
 *   rmsprop      m = g, s^2 <- beta2 s^2 + (1 - beta2) g^2: a moving average for the expectation
 *   adam         m <- beta1 m + (1 - beta1) g, s of rmsprop, both divided by 1 - beta^t so that they start unbiased
 *   adamw        adam whose weight decay is decoupled from the gradient
 *   sparse-adam  adam that moves the moments and parameters of a row only in steps whose gradient has the row
 *                (PyTorch's SparseAdam; section 7.3). The corrections of the start count all steps.
 *   esgd         m = g, s^2 <- beta2 s^2 + (1 - beta2) (Hv)^2 on update steps: the diagonal Newton type preconditioner
 *                in closed form (equilibrated SGD; Dauphin et al., 2015) */
#include "optim/method/method.h"

#include <math.h>

static step_rule divided(const method_args *a)
{
    step_rule r = a->rule;
    r.epsilon = (real)a->self->settings.epsilon;
    r.inside = a->self->settings.epsilon_inside;
    r.correct1 = r.correct2 = 1;
    return r;
}

static void advance_rms(const method_args *a, double decay, double gain)
{
    step_rule r = divided(a);
    r.decay2 = decay;
    r.gain2 = gain;
    la_step(a->part->n, &r, a->g, NULL, a->part->state, a->x, a->out);
}

static void adagrad_advance(const method_args *a)
{
    advance_rms(a, 1, 1);
}

static void rmsprop_advance(const method_args *a)
{
    double beta2 = a->self->settings.beta2;
    advance_rms(a, beta2, 1 - beta2);
}

static void adam_advance(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    double t = (double)a->step;
    step_rule r = divided(a);
    r.decay1 = (real)set->beta1;
    r.gain1 = (real)(1 - set->beta1);
    r.correct1 = (real)(1 / (1 - pow(set->beta1, t)));
    r.decay2 = set->beta2;
    r.gain2 = 1 - set->beta2;
    r.correct2 = (real)(1 / sqrt(1 - pow(set->beta2, t)));
    real *u = a->part->state;
    la_step(a->part->n, &r, a->g, u, u + a->part->n, a->x, a->out);
}

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
    step_rule r = divided(a);
    r.correct2 = (real)(1 / sqrt(1 - pow(set->beta2, fmax(1, (double)*updates))));
    la_step_divide(n, &r, a->g, s, a->x, a->out);
}

const method_ops METHOD_OPS(adagrad) = {
    .kind = {"adagrad", "diagonal: divide by the root of all squared gradients", .rows = true},
    .advance = adagrad_advance,
    .arrays = 1,
};

const method_ops METHOD_OPS(rmsprop) = {
    .kind = {"rmsprop", "diagonal: divide by the root of the mean squared gradient"},
    .advance = rmsprop_advance,
    .arrays = 1,
};

const method_ops METHOD_OPS(adam) = {
    .kind = {"adam", "rmsprop with momentum, corrected at the start"},
    .advance = adam_advance,
    .arrays = 2,
};

const method_ops METHOD_OPS(adamw) = {
    .kind = {"adamw", "adam with decoupled weight decay"},
    .advance = adam_advance,
    .arrays = 2,
};

const method_ops METHOD_OPS(sparse_adam) = {
    .kind = {"sparse-adam", "adam that leaves rows without a gradient alone", .rows = true},
    .advance = adam_advance,
    .arrays = 2,
};

const method_ops METHOD_OPS(esgd) = {
    .kind = {"esgd", "equilibrated: divide by the root of the mean squared Hessian-vector product", .products = true},
    .advance = esgd_advance,
    .size = esgd_size,
};
