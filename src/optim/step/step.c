/* One step, as far as it is the same for all methods:
 *
 *   skip it where something is not finite; clip the gradient where asked to; on update steps the method gets (v, Hv); d
 *   from the method; clip d jointly over all tensors; theta <- (1 - mu decay) theta - mu d.
 *
 * Tensors without a gradient take no part. Methods that can do so write theta in the same pass that makes d; only
 * clipping needs d on its own. */
#include "la/pool.h"
#include "la/la.h"
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

void psgd__parts_copy(const psgd_optimizer *self, void *const *x, void *const *y)
{
    for (int i = 0; i < self->part_count; i++) memcpy(y[i], x[i], (size_t)self->parts[i].n * sizeof(real));
}

void psgd__parts_scale(const psgd_optimizer *self, double c, void *const *x)
{
    for (int i = 0; i < self->part_count; i++) la_scale(self->parts[i].n, (real)c, x[i]);
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

static bool clips(const optim_settings *set)
{
    return set->clip > 0 || set->clip_element > 0 || set->clip_relative > 0 || set->clip_recent > 0 ||
           set->clip_rms > 0;
}

/* find_bad over ranks: each checks its own tensors, and all get the result. */
static int find_bad_of_ranks(const psgd_optimizer *self, const void *const *where, const void *const *x, int64_t copies,
                             double *max)
{
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        bool looks = where[i] && optim_is_mine(self, p);
        double own = looks ? (double)la_max_abs(p->n * copies, x[i]) : 0;
        psgd__ranks_put(self, i, isfinite(own) ? own : HUGE_VAL);
    }
    if (psgd__ranks_collect(self) != PSGD_OK) return self->part_count;
    for (int i = 0; i < self->part_count; i++) {
        double here = psgd__ranks_max(self, i);
        if (!isfinite(here)) return i;
        if (here > *max) *max = here;
    }
    return -1;
}

/* The first tensor with a non-finite element in x, or -1; *max is the largest magnitude. Tensors without an array in
 * where (x itself, or the h that a v goes with) are left out. part_count: the exchange between the ranks failed. */
static int find_bad(const psgd_optimizer *self, const psgd_rows *const *rows, const void *const *where,
                    const void *const *x, int64_t copies, double *max)
{
    *max = 0;
    if (self->ranks) return find_bad_of_ranks(self, where, x, copies, max);
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        if (!where[i]) continue;
        int64_t n = rows && rows[i] ? rows[i]->count * psgd__part_width(p) : p->n;
        double here = (double)la_max_abs(n * copies, x[i]);
        if (!isfinite(here)) return i;
        if (here > *max) *max = here;
    }
    return -1;
}

/* The factor that brings a direction of this norm to the limit: relative to the geometric mean of the root mean squares
 * of theta now and at the first step; where that was zero, of the first direction. All have the units of theta, so that
 * its scale makes no difference. With the current theta alone, steps and parameters could grow together without bound;
 * with the first one alone, parameters that start small could not grow. */
static double clip_relative(psgd_optimizer *self, void *const *theta, double norm)
{
    double count = 0, energy = 0, *first = &self->now.first_rms;
    for (int i = 0; i < self->part_count; i++) {
        if (self->parts[i].present) count += (double)self->parts[i].n;
    }
    double least = self->settings.clip_relative * *first * sqrt(count); /* whatever theta is now */
    if (*first >= 0 && norm <= least) return 1;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        if (p->present) energy += la_dot(p->n, theta[i], theta[i]);
    }
    double rms = sqrt(energy / count);
    if (*first < 0) *first = rms > 0 ? rms : norm / sqrt(count);
    double limit = self->settings.clip_relative * sqrt(*first * fmax(rms, *first)) * sqrt(count);
    return norm > limit ? limit / norm : 1;
}

/* The factor that brings a direction of this norm to the limit, a multiple of the average of those before it. Where P
 * has become too large for the curvature, as it does when that falls and then rises, a direction is suddenly orders of
 * magnitude longer. The average lets directions grow by a factor from step to step, as they do when learning sets in.
 */
static double clip_recent(psgd_optimizer *self, double norm)
{
    const double keep = 0.95;
    double *recent = &self->now.recent, limit = self->settings.clip_recent * *recent;
    bool longer = *recent > 0 && norm > limit;
    self->now.surprised = longer || !isfinite(norm);
    if (!isfinite(norm)) return 1; /* inf, or NaN where another limit has made the factor 0 */
    *recent = *recent > 0 ? keep * *recent + (1 - keep) * (longer ? limit : norm) : norm;
    return longer ? limit / norm : 1;
}

/* Clips d of one tensor: its elements at once, its root mean square by a factor of the step that is to come. Adds the
 * squares of what is left to *energy. Returns a bound of |d|, which is not finite where d is not. */
static double clip_tensor(const optim_settings *set, part *p, real *d, double *energy)
{
    if (set->clip_element > 0) {
        double max = (double)la_max_abs(p->n, d);
        if (!isfinite(max)) return max; /* the clamp would hide it */
        la_clamp(p->n, (real)set->clip_element, d);
    }
    double squares = la_dot(p->n, d, d);
    if (set->clip_rms > 0) {
        double rms = sqrt(squares / fmax(1, (double)p->n));
        if (rms > set->clip_rms) p->factor = set->clip_rms / rms;
    }
    *energy += squares * p->factor * p->factor;
    return isfinite(squares) ? sqrt(squares) : (double)la_max_abs(p->n, d); /* squares may overflow where d does not */
}

/* The factor that the joint limits ask for. */
static double clip(psgd_optimizer *self, void *const *theta, double norm)
{
    const optim_settings *set = &self->settings;
    double limit = set->clip * (set->clip_by == CLIP_SQRT ? sqrt((double)self->total) : 1);
    double factor = limit > 0 && norm > limit ? limit / norm : 1;
    if (set->clip_relative > 0 && norm > 0) factor *= clip_relative(self, theta, norm * factor);
    if (set->clip_recent > 0) factor *= clip_recent(self, norm * factor);
    return factor;
}

/* theta <- keep theta - rate d for all tensors, d from the buffer. */
static psgd_status apply(psgd_optimizer *self, step_rule rule, void *const *theta)
{
    bool clipped = clips(&self->settings);
    double max = 0, energy = 0;
    for (int i = 0; i < self->part_count; i++) {
        part *p = &self->parts[i];
        if (!p->present) continue;
        real *d = (real *)self->direction + p->from;
        p->factor = 1;
        double here = clipped ? clip_tensor(&self->settings, p, d, &energy) : (double)la_max_abs(p->n, d);
        if (!isfinite(here)) return psgd__optim_skip(self, "the direction of %s is not finite", p->name);
        if (here > max) max = here;
    }
    double rate = (double)rule.rate * (clipped ? clip(self, theta, sqrt(energy)) : 1);
    if (!(rate * max <= (double)REAL_MAX / 4)) return psgd__optim_skip(self, "the step would overflow");
    rule.l2 = 0;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        if (!p->present) continue;
        rule.rate = (real)(rate * p->factor);
        la_step(p->n, &rule, (real *)self->direction + p->from, NULL, NULL, theta[i], theta[i]);
    }
    return PSGD_OK;
}

/* What is not finite, as a phrase, with the tensor in *bad; NULL where everything is. *max is the largest |gradient|.
 */
static const char *find_not_finite(const psgd_optimizer *self, const psgd_rows *const *rows,
                                   const void *const *gradient, const void *const *v, const void *const *h, int *bad,
                                   double *max)
{
    int64_t pairs = self->settings.fit.pairs;
    double ignored;
    *max = 0;
    *bad = self->settings.check ? find_bad(self, rows, gradient, gradient, 1, max) : -1;
    if (*bad >= 0) return "gradient";
    if (!h) return NULL;
    *bad = find_bad(self, rows, h, h, pairs, &ignored);
    if (*bad >= 0) return "Hessian-vector product";
    *bad = find_bad(self, rows, h, v, pairs, &ignored);
    return *bad >= 0 ? "v" : NULL;
}

psgd_status PSGD_TYPED(psgd__optim_check)(const psgd_optimizer *self, const psgd_rows *const *rows,
                                          const void *const *gradient, const void *const *v, const void *const *h)
{
    int bad;
    double max;
    bool takes = psgd_optimizer_wants_product(self);
    const char *what = find_not_finite(self, rows, gradient, v, takes ? h : NULL, &bad, &max);
    if (what && bad == self->part_count) return PSGD_ERR_RANK;
    return !what ? PSGD_OK : psgd__fail(PSGD_ERR_NOT_FINITE, "the %s of %s is not finite", what, self->parts[bad].name);
}

/* All tensors of one step. */
typedef struct tensors {
    psgd_optimizer *self;
    step_rule rule;
    bool apart;
    void *const *theta;
    const void *const *gradient, *const *v, *const *h; /* v and h may be NULL */
} tensors;

static void advance_one(const tensors *t, int i)
{
    psgd_optimizer *self = t->self;
    const method_ops *ops = self->ops;
    part *p = &self->parts[i];
    if (!optim_is_mine(self, p)) return;
    if (!p->present) {
        if (ops->leave_out) ops->leave_out(self, p);
        return;
    }
    const real *h = t->h && p->due ? t->h[i] : NULL;
    ops->advance(&(method_args){
        .self = self,
        .part = p,
        .step = p->taken + 1,
        .rule = t->rule,
        .g = t->gradient[i],
        .x = t->theta[i],
        .v = h ? t->v[i] : NULL,
        .h = h,
        .out = t->apart ? (real *)self->direction + p->from : t->theta[i],
        .update = p->due && (h || async_has_product(self->async) || !optim_uses_products(self)),
    });
}

static bool runs_concurrently(const psgd_optimizer *self, int i)
{
    const method_ops *ops = self->ops;
    return self->work.stride > 0 && self->parts[i].present && ops->concurrent && ops->concurrent(&self->parts[i]);
}

static bool is_heavy(void *data, int i)
{
    const tensors *t = data;
    const psgd_optimizer *self = t->self;
    const method_ops *ops = self->ops;
    return runs_concurrently(self, i) && ops->heavy && ops->heavy(&self->parts[i]);
}

static void advance_small(void *data, int i)
{
    const tensors *t = data;
    if (runs_concurrently(t->self, i)) advance_one(t, i);
}

/* All ranks. What the owners have fitted, and their directions, to all. */
static psgd_status share(psgd_optimizer *self)
{
    if (!self->ranks) return PSGD_OK;
    for (int i = 0; i < self->part_count; i++) psgd__ranks_put(self, i, self->parts[i].fitted);
    PSGD_TRY(psgd__ranks_collect(self));
    for (int i = 0; i < self->part_count; i++) self->parts[i].fitted = psgd__ranks_max(self, i) != 0;
    return self->kind->fits ? psgd__ranks_share(self) : PSGD_OK;
}

static psgd_status advance_all(tensors *t)
{
    psgd_optimizer *self = t->self;
    if (self->work.stride > 0) {
        int threads = la_threads(), slices = self->work.slices;
        la_tasks(self->part_count, threads < slices ? threads : slices, is_heavy, advance_small, t);
    }
    for (int i = 0; i < self->part_count; i++) {
        if (!runs_concurrently(self, i)) advance_one(t, i);
    }
    PSGD_TRY(share(self));
    for (int i = 0; i < self->part_count; i++) {
        self->now.fits += self->parts[i].fitted;
        self->parts[i].fitted = false;
    }
    return PSGD_OK;
}

/* Sets which tensors have a gradient and which fits are due. True where a due tensor has a pair (v, Hv) from the
 * caller. Where products come from the caller and h is NULL, nothing is due. */
static bool begin(psgd_optimizer *self, const void *const *gradient, const void *const *h)
{
    bool products = optim_uses_products(self) && !async_has_product(self->async), pairs = false;
    for (int i = 0; i < self->part_count; i++) {
        part *p = &self->parts[i];
        p->present = gradient[i] || p->rows;
        p->due = p->present && (h || !products) && psgd__optim_update_due(self, i);
        pairs |= p->due && products && h && h[i];
    }
    return pairs;
}

psgd_status PSGD_TYPED(psgd__optim_step)(psgd_optimizer *self, void *const *theta, const void *const *gradient,
                                         const void *const *v, const void *const *h)
{
    const method_ops *ops = self->ops;
    const optim_settings *set = &self->settings;
    double max;
    int bad;
    bool pairs = begin(self, gradient, h);
    const char *what = find_not_finite(self, NULL, gradient, v, pairs ? h : NULL, &bad, &max);
    if (what && bad == self->part_count) return PSGD_ERR_RANK;
    if (what) return psgd__optim_skip(self, "the %s of %s is not finite", what, self->parts[bad].name);
    PSGD_TRY(psgd__clip_gradient(self, &gradient, &max));

    double rate = psgd_optimizer_rate(self);
    step_rule rule = {.keep = (real)(1 - rate * set->decay), .rate = (real)rate, .l2 = (real)set->l2};
    bool apart = ops->whole || clips(set);
    if (!apart && !(rate * max / (1 - set->momentum) <= (double)REAL_MAX / 4)) {
        return psgd__optim_skip(self, "the step would overflow");
    }
    int64_t skipped = self->now.skipped;
    psgd_status status = psgd__async_begin(self, theta, pairs ? h : NULL);
    if (status != PSGD_OK || self->now.skipped > skipped) return status;
    tensors all = {self, rule, apart, theta, gradient, pairs ? v : NULL, pairs ? h : NULL};
    if (apart) {
        all.rule.keep = 0;
        all.rule.rate = -1;
    }
    status = advance_all(&all);
    if (status != PSGD_OK) {
        psgd__async_drop(self);
        return status;
    }
    if (ops->finish) ops->finish(self, pairs || async_has_product(self->async) || !optim_uses_products(self));
    psgd__async_post(self);
    if (apart) {
        status = apply(self, rule, theta);
        if (self->now.skipped > skipped) return status;
    }
    psgd__optim_count(self, true);
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
        p->state_size = ops->size ? ops->size(self, p) : ops->arrays * p->n;
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
        if (!runs_concurrently(self, i)) continue;
        int64_t size = self->parts[i].n * set->fit.pairs;
        if (size > self->probe_stride) self->probe_stride = size;
    }
    if (probe < self->probe_stride * self->work.slices) probe = self->probe_stride * self->work.slices;
    self->state = psgd__alloc(self->context, self->state_size, sizeof(real));
    self->direction = psgd__alloc(self->context, apart ? self->total : 0, sizeof(real));
    self->probe = psgd__alloc(self->context, probes ? probe : 0, sizeof(real));
    if (!self->state || !self->direction || !self->probe) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the state of %s over %lld parameters", self->kind->name,
                          (long long)self->total);
    }
    int64_t at = 0;
    for (int i = 0; i < self->part_count; i++) {
        self->parts[i].state = (real *)self->state + at;
        at += self->parts[i].state_size;
    }
    return PSGD_OK;
}
