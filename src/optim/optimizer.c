/* What a program reads and sets between steps, and objectives. Everything is checked here; the typed half trusts it. */
#include "optim/optim.h"
#include "core/rng.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The chance of an update falls geometrically from 1 to the floor. */
static double update_probability(const optim_settings *set, int64_t step)
{
    if (set->update_anneal == 0) return set->update_probability;
    double done = (double)step / (double)set->update_anneal;
    return set->update_probability * (done < 1 ? pow(set->update_floor, done) : set->update_floor);
}

/* A joint preconditioner has the clock of the optimizer, any other that of its tensor. After a surprise all are fitted:
 * the sooner P follows, the less is lost. Not with a delay, where workers have their own clock. */
bool psgd__optim_update_due(const psgd_optimizer *self, int tensor)
{
    const optim_settings *set = &self->settings;
    int64_t step = self->joint ? self->now.step : self->parts[tensor].steps;
    if (self->now.surprised && set->delay == 0 && set->update_probability > 0) return true;
    if (step % set->update_every) return false;
    double chance = update_probability(set, step / set->update_every);
    if (chance >= 1) return true;
    rng_stream stream = psgd__rng_stream((uint64_t)set->seed, RNG_SHUFFLE, UINT32_MAX, (uint64_t)step);
    return psgd__rng_chance(&stream, 0, chance);
}

/* The chance is entry 1 of the stream whose entry 0 decides whether there is a fit. */
bool psgd__optim_probes_p(const psgd_optimizer *self)
{
    const optim_settings *set = &self->settings;
    if (set->probe == PROBE_NORMAL || !optim_uses_products(self) || !self->kind->fits || self->joint) return false;
    if (set->probe == PROBE_PRECONDITIONED) return true;
    rng_stream stream = psgd__rng_stream((uint64_t)set->seed, RNG_SHUFFLE, UINT32_MAX, (uint64_t)self->now.step);
    return psgd__rng_chance(&stream, 1, 0.5);
}

void psgd__optim_count(psgd_optimizer *self, bool taken)
{
    self->now.step++;
    self->now.skipped += !taken;
    self->now.skipped_in_row = taken ? 0 : self->now.skipped_in_row + 1;
    for (int i = 0; i < self->part_count; i++) {
        self->parts[i].steps += self->parts[i].present;
        self->parts[i].taken += self->parts[i].present && taken;
    }
}

psgd_status psgd__optim_skip(psgd_optimizer *self, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(self->note, sizeof self->note, format, args);
    va_end(args);
    psgd__optim_count(self, false);
    if (self->now.skipped_in_row <= self->settings.max_skipped) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NOT_FINITE, "%lld steps in a row were skipped (option max-skipped is %lld): %s",
                      (long long)self->now.skipped_in_row, (long long)self->settings.max_skipped, self->note);
}

int psgd_optimizer_tensor_wants_product(const psgd_optimizer *self, int tensor)
{
    return self && tensor >= 0 && tensor < self->part_count && !self->kind->searches && optim_uses_products(self) &&
           !async_has_product(self->async) && psgd__optim_update_due(self, tensor);
}

int psgd_optimizer_wants_product(const psgd_optimizer *self)
{
    int wants = 0;
    for (int i = 0; self && !wants && i < self->part_count; i++) wants = psgd_optimizer_tensor_wants_product(self, i);
    return wants;
}

static psgd_status check_list(const psgd_optimizer *self, const void *const *list, const char *name)
{
    for (int i = 0; i < self->part_count; i++) {
        if (!list || !list[i])
            return psgd__fail(PSGD_ERR_ARGUMENT, "%s has no array for %s", name, self->parts[i].name);
    }
    return PSGD_OK;
}

psgd_status psgd_optimizer_draw(const psgd_optimizer *self, int tensor, void *v)
{
    if (!self || !v || tensor < 0 || tensor >= self->part_count) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "draw needs an optimizer, one of its tensors (not %d) and v", tensor);
    }
    return self->half ? psgd__half_draw(self, tensor, NULL, v) : OPTIM_CALL(self, draw, self, tensor, NULL, v);
}

psgd_status psgd_optimizer_observe(psgd_optimizer *self, int tensor, int64_t count, const void *activations,
                                   const void *output_gradients)
{
    if (!self || tensor < 0 || tensor >= self->part_count || count < 1 || !activations || !output_gradients) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "observe needs an optimizer, one of its tensors, at least one row, activations and output "
                          "gradients");
    }
    if (self->ranks) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "over several ranks %s makes its factors of gradients, not of "
                          "activations",
                          self->kind->name);
    }
    PSGD_TRY(psgd__half_refuse(self, "psgd_optimizer_observe"));
    return OPTIM_CALL(self, observe, self, tensor, count, activations, output_gradients);
}

/* No criterion was named and the objective has exact products: Newton. */
static void decide(psgd_optimizer *self)
{
    self->settings = self->with_products;
    self->undecided = false;
    for (int i = 0; i < self->part_count + 1; i++) {
        psgd_precond *p = i < self->part_count ? self->parts[i].precond : self->joint;
        if (!p) continue;
        p->settings.criterion = self->settings.fit.criterion;
        p->settings.damping = self->settings.fit.damping;
        p->settings.step = self->settings.fit.step;
    }
    psgd__async_decide(self);
}

/* One block: the pointer lists, then the arrays. */
psgd_status psgd_optimizer_bind(psgd_optimizer *self, const psgd_objective *objective)
{
    enum { LISTS = 6 };
    if (!self || !objective || !objective->gradient) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "bind needs an optimizer and an objective with a gradient");
    }
    PSGD_TRY(psgd__half_refuse(self, "psgd_optimizer_bind"));
    if (self->undecided && objective->product && self->now.step == 0) decide(self);
    int64_t size = (int64_t)psgd_dtype_size(self->dtype), pairs = self->settings.fit.pairs;
    int64_t copies[LISTS] = {1, pairs, pairs, 1, 0, 0}, lists = LISTS * self->part_count * (int64_t)sizeof(void *);
    int64_t all = 2 + 2 * pairs, elements, bytes, count = (lists + 63) / 64 * 64;
    if (!psgd__mul_fits(self->total, all, &elements) || !psgd__mul_fits(elements, size, &bytes) ||
        !psgd__add_fits(bytes, count, &bytes)) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "the arrays of an objective are larger than can be counted");
    }
    char *block = psgd__alloc(self->context, bytes, 1);
    if (!block) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the arrays of an objective");

    psgd_status status = psgd__async_drain(self); /* requests may call the objective bound before */
    if (status == PSGD_OK) {
        psgd_objective before = self->objective;
        self->objective = *objective;
        status = psgd__async_bind_objective(self);
        if (status != PSGD_OK) self->objective = before;
    }
    if (status != PSGD_OK) {
        psgd__free(self->context, block);
        return status;
    }
    psgd__free(self->context, self->closure);
    self->closure = block;
    void ***list[LISTS] = {&self->gradient, &self->v, &self->h, &self->spare, &self->pair_v, &self->pair_h};
    char *array = block + count;
    for (int k = 0; k < LISTS; k++) {
        *list[k] = (void **)(void *)block + k * self->part_count;
        for (int i = 0; i < self->part_count && copies[k]; i++) {
            (*list[k])[i] = array;
            array += copies[k] * self->parts[i].n * size;
        }
    }
    return PSGD_OK;
}

psgd_status psgd_optimizer_iterate(psgd_optimizer *self, void *const *theta, double *loss)
{
    if (!self || !self->closure) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "iterate needs an optimizer with an objective: see psgd_optimizer_bind");
    }
    PSGD_TRY(check_list(self, (const void *const *)theta, "theta"));
    double ignored;
    return OPTIM_CALL(self, iterate, self, theta, loss ? loss : &ignored);
}

psgd_status psgd_optimizer_position(const psgd_optimizer *self, const void *const *theta, void *const *position)
{
    if (!self) return psgd__fail(PSGD_ERR_ARGUMENT, "position needs an optimizer");
    PSGD_TRY(psgd__half_refuse(self, "psgd_optimizer_position"));
    PSGD_TRY(check_list(self, theta, "theta"));
    PSGD_TRY(check_list(self, (const void *const *)position, "position"));
    OPTIM_CALL(self, position, self, theta, position);
    return PSGD_OK;
}

psgd_status psgd_optimizer_validate(psgd_optimizer *self, double loss)
{
    if (!self || isnan(loss)) return psgd__fail(PSGD_ERR_ARGUMENT, "validate needs an optimizer and a loss");
    if (loss > self->now.best_validation) self->now.plateau *= self->settings.lr_schedule.factor;
    self->now.best_validation = fmin(self->now.best_validation, loss);
    return PSGD_OK;
}

int psgd_diverged(double first, double loss)
{
    return !isfinite(loss) || loss - first > 1e4 * (1 + fabs(first));
}

int psgd_optimizer_uses_products(const psgd_optimizer *self)
{
    return self && optim_uses_products(self);
}

int64_t psgd_optimizer_pairs(const psgd_optimizer *self)
{
    return self && self->settings.fit.pairs > 0 ? self->settings.fit.pairs : 1;
}

int psgd_optimizer_uses_activations(const psgd_optimizer *self)
{
    return self && self->kind->observes && !self->ranks;
}

int psgd_optimizer_needs_objective(const psgd_optimizer *self)
{
    return self && self->kind->searches;
}

double psgd__optim_schedule(const psgd_optimizer *self, const schedule *s, int64_t step)
{
    int64_t total = self->settings.total;
    switch ((schedule_kind)s->kind) {
    case SCHEDULE_CONSTANT:
        return 1;
    case SCHEDULE_STEP:
        return pow(s->factor, (double)(step / s->every));
    case SCHEDULE_COSINE:
        if (step >= total) return s->floor;
        return s->floor + (1 - s->floor) * 0.5 * (1 + cos(M_PI * (double)step / (double)total));
    case SCHEDULE_PLATEAU:
        return self->now.plateau;
    }
    return 1;
}

double psgd_optimizer_rate(const psgd_optimizer *self)
{
    if (!self) return 0;
    const optim_settings *set = &self->settings;
    int64_t step = self->now.step;
    double warmup = step < set->warmup ? (double)(step + 1) / (double)set->warmup : 1;
    return set->lr * warmup * psgd__optim_schedule(self, &set->lr_schedule, step);
}

double psgd_optimizer_base_rate(const psgd_optimizer *self)
{
    return self ? self->settings.lr : 0;
}

int64_t psgd_optimizer_steps(const psgd_optimizer *self)
{
    return self ? self->now.step : 0;
}

int64_t psgd_optimizer_skipped(const psgd_optimizer *self)
{
    return self ? self->now.skipped : 0;
}

int64_t psgd_optimizer_evaluations(const psgd_optimizer *self)
{
    return self ? self->now.evaluations : 0;
}

int64_t psgd_optimizer_products(const psgd_optimizer *self)
{
    return self ? self->now.products : 0;
}

const char *psgd_optimizer_note(const psgd_optimizer *self)
{
    return self ? self->note : "";
}

const psgd_precond *psgd_optimizer_precond(const psgd_optimizer *self, int tensor)
{
    if (!self || tensor < 0 || tensor >= self->part_count) return NULL;
    return self->joint ? self->joint : self->parts[tensor].precond;
}
