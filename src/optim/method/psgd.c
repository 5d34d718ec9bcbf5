/* PSGD: d = P m, P = Q'Q fitted to the Newton or the Fisher type criterion, m the gradient or its moving average
 * (paper, sections 4.2 to 4.4). The fit comes first, so the new Q makes the step. */
#include "la/la.h"
#include "la/array/normal.h"
#include "optim/method/method.h"

#include <math.h>
#include <string.h>

static int64_t psgd_size(const psgd_optimizer *self, const part *p)
{
    return self->settings.momentum > 0 ? p->n : 0;
}

/* out <- the gradient or its moving average, divided by 1 - beta^t so that it starts without bias. */
static void average(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    step_rule r = a->rule;
    if (set->momentum == 0) {
        la_step(a->part->n, &r, a->g, NULL, NULL, a->x, a->out);
        return;
    }
    double correct = 1 / (1 - pow(set->momentum, (double)a->step));
    r.decay1 = (real)set->momentum;
    r.gain1 = (real)(1 - set->momentum);
    r.ahead = set->nesterov;
    r.rate = (real)-correct;
    la_step(a->part->n, &r, a->g, a->part->state, NULL, a->x, a->out);
}

/* What P is applied to: the gradient itself where nothing is added to it, else out. */
static const real *averaged(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    if (set->momentum == 0 && set->l2 == 0 && !a->part->rows) return a->g;
    average(a);
    return a->out;
}

static psgd_status update_part(const method_args *a, int64_t count, const real *v, const real *h)
{
    psgd_precond *precond = a->part->precond;
    return a->part->rows ? PSGD_TYPED(psgd__precond_update_rows)(precond, a->part->rows, v, h)
                         : PSGD_TYPED(psgd__precond_update)(precond, count, v, h);
}

static real *probe_of(const psgd_optimizer *self)
{
    return (real *)self->probe + psgd__work_slice * self->probe_stride;
}

static psgd_status fit_newton(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    const real *h = a->h;
    int64_t n = a->part->n * set->fit.pairs;
    if (set->l2 > 0) { /* the Hessian of what is minimised is H + l2 I */
        real *sum = probe_of(a->self);
        memcpy(sum, h, (size_t)n * sizeof(real));
        la_axpy(n, (real)set->l2, a->v, sum);
        h = sum;
    }
    return update_part(a, set->fit.pairs, a->v, h);
}

static const real *fisher_h(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    bool averages = set->whiten == WHITEN_MOMENTUM && set->momentum > 0;
    return averages || set->l2 > 0 ? a->out : a->g;
}

static psgd_status fit_fisher(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    real *v = set->fit.integrate ? NULL : probe_of(a->self);
    if (v) PSGD_TRY(PSGD_TYPED(psgd__optim_draw)(a->self, (int)(a->part - a->self->parts), a->part->rows, v));
    return update_part(a, 1, v, fisher_h(a));
}

static double fit_rate(const psgd_optimizer *self, int64_t step)
{
    const optim_settings *set = &self->settings;
    return set->fit.step * psgd__optim_schedule(self, &set->step_schedule, step - 1);
}

/* A pair that the fit refuses leaves Q unchanged, and the step uses that Q. */
static void fit(const method_args *a)
{
    psgd_optimizer *self = a->self;
    a->part->precond->settings.step = fit_rate(self, a->step);
    bool fisher = self->settings.fit.criterion == CRITERION_FISHER;
    a->part->fitted = (fisher ? fit_fisher(a) : fit_newton(a)) == PSGD_OK;
}

/* The same on a worker. */
static void hand_over(const method_args *a, async_slot *slot)
{
    const optim_settings *set = &a->self->settings;
    bool fisher = set->fit.criterion == CRITERION_FISHER;
    size_t bytes = (size_t)(a->part->n * (fisher ? 1 : set->fit.pairs)) * sizeof(real);
    slot->rate = fit_rate(a->self, a->step);
    if (async_has_product(a->self->async)) return;
    if (fisher) {
        memcpy(slot->h, fisher_h(a), bytes);
        return;
    }
    memcpy(slot->v, a->v, bytes);
    memcpy(slot->h, a->h, bytes);
    if (set->l2 > 0) la_axpy(a->part->n * set->fit.pairs, (real)set->l2, a->v, (real *)(void *)slot->h);
}

/* Here or, with a delay, on a worker, but for the first pair. */
static void fit_or_hand_over(const method_args *a)
{
    psgd_optimizer *self = a->self;
    if (!self->async) {
        fit(a);
        return;
    }
    if (self->async->curvature) return; /* it has the request, and the first Q is in force */
    int i = (int)(a->part - self->parts);
    async_lane *lane = &self->async->lanes[i];
    if (!lane->at_once) {
        hand_over(a, lane->open);
        return;
    }
    if (lane->open) { /* the product is there, with l2 */
        a->part->precond->settings.step = fit_rate(self, a->step);
        a->part->fitted = update_part(a, self->settings.fit.pairs, (real *)(void *)lane->open->v,
                                      (real *)(void *)lane->open->h) == PSGD_OK;
    } else {
        fit(a);
    }
    psgd__async_follow(self, i);
}

static psgd_operator operator_of(const optim_settings *set)
{
    return set->apply == APPLY_P ? PSGD_APPLY_P : set->apply == APPLY_Q ? PSGD_APPLY_Q : PSGD_APPLY_P2;
}

static void apply(const psgd_optimizer *self, const psgd_precond *precond, const real *m, real *d)
{
    const optim_settings *set = &self->settings;
    PSGD_TYPED(psgd__precond_apply)(precond, operator_of(set), m, d);
    if (set->apply == APPLY_INVERSE_FISHER) la_scale(precond->n, (real)(1 / (double)set->fit.batch), d);
}

/* The joint fit is to what the directions are made of, which is one vector already. */
static bool fits_directions(const optim_settings *set)
{
    return set->fit.criterion == CRITERION_FISHER && (set->whiten == WHITEN_MOMENTUM || set->momentum == 0);
}

/* This tensor's part of the pairs of all tensors: [pairs][total]. */
static void gather(const method_args *a)
{
    const psgd_optimizer *self = a->self;
    const optim_settings *set = &self->settings;
    const part *p = a->part;
    real *v = (real *)psgd__work_at(&self->work, self->joint->segments.at_v) + p->from;
    real *h = (real *)psgd__work_at(&self->work, self->joint->segments.at_h) + p->from;
    if (set->fit.criterion == CRITERION_FISHER) {
        if (!fits_directions(set)) la_step(p->n, &a->rule, a->g, NULL, NULL, a->x, h);
        if (!set->fit.integrate) (void)PSGD_TYPED(psgd__optim_draw)(self, (int)(p - self->parts), NULL, v);
        return;
    }
    for (int64_t k = 0; k < set->fit.pairs; k++, v += self->total, h += self->total) {
        memcpy(v, a->v + k * p->n, (size_t)p->n * sizeof(real));
        memcpy(h, a->h + k * p->n, (size_t)p->n * sizeof(real));
        if (set->l2 > 0) la_axpy(p->n, (real)set->l2, v, h);
    }
}

/* The joint fit sees nothing of a tensor where v and h are zero. */
static void leave_out_of_pairs(psgd_optimizer *self, const part *p)
{
    real *v = (real *)psgd__work_at(&self->work, self->joint->segments.at_v) + p->from;
    real *h = (real *)psgd__work_at(&self->work, self->joint->segments.at_h) + p->from;
    for (int64_t k = 0; k < self->settings.fit.pairs; k++, v += self->total, h += self->total) {
        memset(v, 0, (size_t)p->n * sizeof(real));
        memset(h, 0, (size_t)p->n * sizeof(real));
    }
}

static void psgd_leave_out(psgd_optimizer *self, const part *p)
{
    if (!self->joint) return;
    memset((real *)self->direction + p->from, 0, (size_t)p->n * sizeof(real));
    if (!self->settings.fit.integrate) leave_out_of_pairs(self, p);
}

static void fit_joint(psgd_optimizer *self, const real *v, const real *h)
{
    const optim_settings *set = &self->settings;
    async_lane *lane = self->async ? &self->async->lanes[0] : NULL;
    if (lane && self->async->curvature) return;
    double rate = fit_rate(self, self->now.step + 1 - self->now.skipped);
    if (lane && !lane->at_once) {
        size_t bytes = (size_t)(self->total * set->fit.pairs) * sizeof(real);
        lane->open->rate = rate;
        if (async_has_product(self->async)) return;
        if (v) memcpy(lane->open->v, v, bytes);
        memcpy(lane->open->h, h, bytes);
        return;
    }
    if (lane && lane->open) {
        v = (real *)(void *)lane->open->v;
        h = (real *)(void *)lane->open->h;
    }
    self->joint->settings.step = rate;
    if (PSGD_TYPED(psgd__precond_update)(self->joint, set->fit.pairs, v, h) == PSGD_OK) self->now.fits++;
    if (lane) psgd__async_follow(self, 0);
}

static void psgd_finish(psgd_optimizer *self, bool pairs)
{
    if (!self->joint) return;
    const optim_settings *set = &self->settings;
    if (pairs && psgd__optim_update_due(self, 0)) {
        const real *v = set->fit.integrate ? NULL : psgd__work_at(&self->work, self->joint->segments.at_v);
        const real *h = psgd__work_at(&self->work, self->joint->segments.at_h);
        if (fits_directions(set)) h = self->direction;
        fit_joint(self, v, h);
    }
    apply(self, self->joint, self->direction, self->direction);
}

static void psgd_advance(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    if (a->self->joint) {
        average(a);
        if (a->update && !async_has_product(a->self->async)) gather(a);
        if (a->part->due && !a->update) leave_out_of_pairs(a->self, a->part);
        return;
    }
    bool raw = set->l2 > 0 && set->whiten == WHITEN_GRADIENT && a->update && set->fit.criterion == CRITERION_FISHER;
    if (raw) { /* the gradient with l2 in it, for the fit alone */
        la_step(a->part->n, &a->rule, a->g, NULL, NULL, a->x, a->out);
        fit_or_hand_over(a);
    }
    const real *m = averaged(a);
    if (a->update && !raw) fit_or_hand_over(a);
    if (a->part->rows) {
        PSGD_TYPED(psgd__precond_apply_rows)(a->part->precond, operator_of(set), a->part->rows, m, a->out);
    } else {
        apply(a->self, a->part->precond, m, a->out);
    }
}

static bool psgd_concurrent(const part *p)
{
    return p->precond && !p->rows && psgd__precond_concurrent(p->precond);
}

static bool psgd_heavy(const part *p)
{
    return psgd__precond_is_heavy(p->precond);
}

const method_ops METHOD_OPS(psgd) = {
    .kind = {"psgd", "preconditioned on a group, fitted to Hessian-vector products or gradients", .fits = true,
             .rows = true},
    .advance = psgd_advance,
    .leave_out = psgd_leave_out,
    .finish = psgd_finish,
    .size = psgd_size,
    .concurrent = psgd_concurrent,
    .heavy = psgd_heavy,
    .whole = true,
};
