/* One step, as far as it is the same for all methods:
 *
 *   refuse what is not finite; on update steps the method gets (v, Hv); d from the method; clip d jointly over all
 *   tensors; theta <- (1 - mu decay) theta - mu d.
 *
 * Methods that can do so write theta in the same pass that makes d; only clipping needs d on its own. */
#include "la/pool.h"
#include "la/la.h"
#include "la/array/normal.h"
#include "optim/method/method.h"

#include <float.h>
#include <math.h>
#include <string.h>

double psgd__parts_dot(const psgd_optimizer *self, void *const *x, void *const *y)
{
    double sum = 0;
    for (int i = 0; i < self->part_count; i++) sum += la_dot(self->parts[i].n, x[i], y[i]);
    return sum;
}

void psgd__parts_axpy(const psgd_optimizer *self, double c, void *const *x, void *const *y)
{
    for (int i = 0; i < self->part_count; i++) la_axpy(self->parts[i].n, (real)c, x[i], y[i]);
}

double psgd__parts_max(const psgd_optimizer *self, const void *const *x)
{
    double max = 0;
    for (int i = 0; i < self->part_count; i++) {
        double here = (double)la_max_abs(self->parts[i].n, x[i]);
        if (!(here <= max)) max = here;
        if (!isfinite(max)) break;
    }
    return max;
}

/* Joint tensors draw what one tensor of all of them would. */
void PSGD_TYPED(psgd__optim_draw)(const psgd_optimizer *self, int tensor, void *v)
{
    const part *p = &self->parts[tensor];
    int64_t pairs = self->settings.fit.pairs;
    rng_stream stream = psgd__rng_stream((uint64_t)self->settings.seed, RNG_PROBE, self->joint ? 0 : (uint64_t)tensor,
                                         (uint64_t)self->now.step);
    if (!self->joint) {
        la_normal(&stream, 0, p->n * pairs, v);
        return;
    }
    for (int64_t k = 0; k < pairs; k++) la_normal(&stream, k * self->total + p->from, p->n, (real *)v + k * p->n);
}

static bool clips(const optim_settings *set)
{
    return set->clip > 0 || set->clip_element > 0 || set->clip_rms > 0;
}

/* The tensor of a list with something in it that is not finite, or -1; *most is the largest entry of all. */
static int find_bad(const psgd_optimizer *self, const void *const *x, int64_t copies, double *max)
{
    *max = 0;
    for (int i = 0; i < self->part_count; i++) {
        double here = (double)la_max_abs(self->parts[i].n * copies, x[i]);
        if (!isfinite(here)) return i;
        if (here > *max) *max = here;
    }
    return -1;
}

/* Clips d and returns the factor that the joint limit asks for. */
static double clip(psgd_optimizer *self)
{
    const optim_settings *set = &self->settings;
    double energy = 0;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        real *d = (real *)self->direction + p->from;
        if (set->clip_element > 0) la_clamp(p->n, (real)set->clip_element, d);
        double squares = la_dot(p->n, d, d);
        double rms = sqrt(squares / (double)p->n);
        if (set->clip_rms > 0 && rms > set->clip_rms) {
            la_scale(p->n, (real)(set->clip_rms / rms), d);
            squares *= set->clip_rms / rms * (set->clip_rms / rms);
        }
        energy += squares;
    }
    double limit = set->clip * (set->clip_by == CLIP_SQRT ? sqrt((double)self->total) : 1);
    return limit > 0 && sqrt(energy) > limit ? limit / sqrt(energy) : 1;
}

/* theta <- keep theta - rate d for all tensors, d from the buffer. */
static psgd_status apply(psgd_optimizer *self, step_rule rule, void *const *theta)
{
    double max = 0;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        double here = (double)la_max_abs(p->n, (real *)self->direction + p->from);
        if (!isfinite(here)) return psgd__optim_skip(self, "the direction of tensor %d is not finite", i);
        if (here > max) max = here;
    }
    if (clips(&self->settings)) rule.rate = (real)((double)rule.rate * clip(self));
    if (!((double)rule.rate * max <= (double)REAL_MAX / 4)) {
        return psgd__optim_skip(self, "the step would leave the number type");
    }
    rule.l2 = 0;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        la_step_plain(p->n, &rule, (real *)self->direction + p->from, theta[i], theta[i]);
    }
    return PSGD_OK;
}

static psgd_status check_finite(psgd_optimizer *self, const void *const *gradient, const void *const *v,
                                const void *const *h, double *max, bool *skip)
{
    double ignored;
    *max = 0;
    int bad = self->settings.check ? find_bad(self, gradient, 1, max) : -1;
    const char *what = "gradient";
    if (bad < 0 && h) {
        bad = find_bad(self, h, self->settings.fit.pairs, &ignored);
        what = "Hessian-vector product";
    }
    if (bad < 0 && v) {
        bad = find_bad(self, v, self->settings.fit.pairs, &ignored);
        what = "v";
    }
    *skip = bad >= 0;
    return bad < 0 ? PSGD_OK : psgd__optim_skip(self, "the %s of tensor %d is not finite", what, bad);
}

/* All tensors of one step. */
typedef struct tensors {
    method_args args; /* but for what is a tensor's own */
    bool apart;
    void *const *theta;
    const void *const *gradient, *const *v, *const *h; /* v and h may be NULL */
} tensors;

static void advance_one(const tensors *t, int i)
{
    method_args a = t->args;
    a.part = &a.self->parts[i];
    a.g = t->gradient[i];
    a.x = t->theta[i];
    a.v = t->v ? t->v[i] : NULL;
    a.h = t->h ? t->h[i] : NULL;
    a.out = t->apart ? (real *)a.self->direction + a.part->from : t->theta[i];
    const method_ops *ops = a.self->ops;
    ops->advance(&a);
}

static bool runs_beside(const psgd_optimizer *self, int i)
{
    const method_ops *ops = self->ops;
    return self->work.stride > 0 && ops->beside && ops->beside(&self->parts[i]);
}

static bool is_heavy(void *data, int i)
{
    const tensors *t = data;
    const psgd_optimizer *self = t->args.self;
    const method_ops *ops = self->ops;
    return runs_beside(self, i) && ops->heavy && ops->heavy(&self->parts[i]);
}

static void advance_small(void *data, int i)
{
    const tensors *t = data;
    if (runs_beside(t->args.self, i)) advance_one(t, i);
}

static void advance_all(tensors *t)
{
    psgd_optimizer *self = t->args.self;
    int threads = la_threads();
    if (threads > self->work.slices) threads = self->work.slices;
    if (self->work.stride > 0) la_tasks(self->part_count, threads, is_heavy, advance_small, t);
    for (int i = 0; i < self->part_count; i++) {
        if (!runs_beside(self, i)) advance_one(t, i);
    }
    for (int i = 0; i < self->part_count; i++) {
        self->now.fits += self->parts[i].fitted;
        self->parts[i].fitted = false;
    }
}

psgd_status PSGD_TYPED(psgd__optim_step)(psgd_optimizer *self, void *const *theta, const void *const *gradient,
                                         const void *const *v, const void *const *h)
{
    const method_ops *ops = self->ops;
    const optim_settings *set = &self->settings;
    bool update = psgd__optim_update_due(self), takes = update && optim_uses_products(self), skip;
    double max;
    PSGD_TRY(check_finite(self, gradient, takes ? v : NULL, takes ? h : NULL, &max, &skip));
    if (skip) return PSGD_OK;

    double rate = psgd_optimizer_rate(self);
    step_rule rule = {.keep = (real)(1 - rate * set->decay), .rate = (real)rate, .l2 = (real)set->l2};
    bool apart = ops->whole || clips(set);
    if (!apart && !(rate * max / (1 - set->momentum) <= (double)REAL_MAX / 4)) {
        return psgd__optim_skip(self, "the step would leave the number type");
    }
    method_args a = {.self = self, .step = self->now.step + 1 - self->now.skipped, .rule = rule, .update = update};
    if (apart) {
        a.rule.keep = 0;
        a.rule.rate = -1;
    }
    advance_all(&(tensors){a, apart, theta, gradient, takes ? v : NULL, takes ? h : NULL});
    if (ops->finish) ops->finish(self, a.step, update);
    if (apart) {
        int64_t skipped = self->now.skipped;
        psgd_status status = apply(self, rule, theta);
        if (self->now.skipped > skipped) return status;
    }
    self->now.step++;
    self->now.skipped_in_row = 0;
    return PSGD_OK;
}

void PSGD_TYPED(psgd__optim_position)(const psgd_optimizer *self, const void *const *theta, void *const *position)
{
    const method_ops *ops = self->ops;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        if (ops->position) {
            ops->position(self, p, theta[i], position[i]);
        } else {
            memmove(position[i], theta[i], (size_t)p->n * sizeof(real));
        }
    }
}

psgd_status PSGD_TYPED(psgd__optim_observe)(psgd_optimizer *self, int tensor, int64_t count, const void *activations,
                                            const void *output_gradients)
{
    const method_ops *ops = self->ops;
    if (!ops->observe) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "%s takes no activations; kfac does", self->kind->name);
    }
    return ops->observe(self, &self->parts[tensor], count, activations, output_gradients);
}

/* State of all tensors in one slab, then what the settings ask for. */
psgd_status PSGD_TYPED(psgd__optim_build)(psgd_optimizer *self, int method)
{
    const method_ops *ops = psgd__method_at(method);
    const optim_settings *set = &self->settings;
    self->ops = ops;
    for (int i = 0; i < self->part_count; i++) {
        part *p = &self->parts[i];
        p->state_size = ops->size ? ops->size(self, p) : 0;
        if (!psgd__add_fits(self->state_size, p->state_size, &self->state_size)) {
            return psgd__fail(PSGD_ERR_NO_MEMORY, "the state of %s is larger than can be counted", self->kind->name);
        }
    }
    if (ops->reserve) ops->reserve(self);
    PSGD_TRY(psgd__work_commit(&self->work));

    bool apart = (ops->whole || clips(set)) && !self->kind->searches;
    bool probes = self->kind->fits && !self->joint && (!optim_uses_products(self) || set->l2 > 0);
    int64_t probe;
    if (!psgd__mul_fits(self->largest, set->fit.pairs, &probe)) probe = INT64_MAX;
    for (int i = 0; i < self->part_count; i++) {
        if (!runs_beside(self, i)) continue;
        int64_t size = self->parts[i].n * set->fit.pairs;
        if (size > self->probe_stride) self->probe_stride = size;
    }
    if (probe < self->probe_stride * self->work.slices) probe = self->probe_stride * self->work.slices;
    self->state = psgd__alloc(self->context, self->state_size, sizeof(real));
    self->direction = psgd__alloc(self->context, apart ? self->total : 0, sizeof(real));
    self->probe = psgd__alloc(self->context, probes ? probe : 0, sizeof(real));
    if (!self->state || !self->direction || !self->probe) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the state of %s over %lld numbers", self->kind->name,
                          (long long)self->total);
    }
    int64_t at = 0;
    for (int i = 0; i < self->part_count; i++) {
        self->parts[i].state = (real *)self->state + at;
        at += self->parts[i].state_size;
    }
    return PSGD_OK;
}
