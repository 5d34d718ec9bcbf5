/* Choosing a group for each tensor within budgets of memory and time. */
#include "core/memory.h"
#include "core/dtype.h"
#include "core/options.h"
#include "group/spec.h"
#include <psgd/group.h>
#include <psgd/plan.h>

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_CANDIDATES = 96,
    SPEC_ROOM = 32 * 10,
    ALL_SUBSETS = 5,
    SHORT_VECTOR = 64,
    LONG_SIDE = 300,
    WIDE_LAYER = 128
};
enum { DEFAULT_BUDGET = 4, SMALL_PROBLEM = 1 << 16 };

typedef struct candidate {
    char spec[SPEC_ROOM];
    int64_t size, bytes;
    double flops;
} candidate;

/* The candidates of one tensor, poorest first; each costs more than the one before. */
typedef struct tensor_plan {
    candidate *list;
    int count, chosen;
} tensor_plan;

typedef struct plan_settings {
    double budget, bytes, time, gradient_flops;
    int64_t max_factor;
    int criterion;
} plan_settings;

struct psgd_plan {
    const psgd_context *context;
    psgd_dtype dtype;
    plan_settings settings;
    int count;
    tensor_plan *tensors;
};

#define FIELD(name) offsetof(plan_settings, name)

enum { PLAN_NEWTON, PLAN_FISHER };
static const char *const criteria[] = {"newton", "fisher", NULL};

static const option_row rows[] = {
    {"budget", OPTION_NUMBER, FIELD(budget), "0", .min = 0, .max = HUGE_VAL,
     .help = "memory of all Q, as a multiple of the parameters; 0: 4, but at least 64 KB"},
    {"bytes", OPTION_NUMBER, FIELD(bytes), "0", .min = 0, .max = HUGE_VAL, .help = "or as bytes; 0: by budget"},
    {"time", OPTION_NUMBER, FIELD(time), "0", .min = 0, .max = HUGE_VAL,
     .help = "flops of one fit and one step as a share of gradient-flops; 0: any"},
    {"gradient-flops", OPTION_NUMBER, FIELD(gradient_flops), "0", .min = 0, .max = HUGE_VAL,
     .help = "flops of one gradient"},
    {"max-factor", OPTION_COUNT, FIELD(max_factor), "8192", .min = 1, .max = 1e9,
     .help = "the largest side that gets a triangle"},
    {"criterion", OPTION_CHOICE, FIELD(criterion), "newton", .choices = criteria,
     .help = "what Q will be fitted to; fisher: fewer triangles, none on long outputs, nor on outputs above 128 of "
             "long inputs"},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

int psgd_plan_option(int index, psgd_option_info *option)
{
    return psgd__option_at(rows, ROWS, index, option);
}

/* Adds a spec; specs come from the richest down. One that takes no fewer bytes than the richer one before it is left
 * out. */
static psgd_status offer(const psgd_plan *self, int ndim, const int64_t *shape, const char *source, candidate *list,
                         int *count)
{
    candidate c = {0};
    double update, apply;
    if (*count == MAX_CANDIDATES) return PSGD_OK;
    snprintf(c.spec, sizeof c.spec, "%s", source);
    PSGD_TRY(psgd_group_cost(self->context, source, ndim, shape, self->dtype, &c.size, &c.bytes, &update, NULL, &apply,
                             NULL));
    c.flops = update + apply;
    if (*count > 0 && list[*count - 1].bytes <= c.bytes) return PSGD_OK;
    list[(*count)++] = c;
    return PSGD_OK;
}

static int64_t product_of(int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    return n;
}

/* A kron with a triangle on the modes of mask and a diagonal on the others; a mode of one needs neither. The last mode
 * has norm for diag: it costs as much, and where the last column is the bias it takes the mean out of the inputs. */
static void kron_spec(int ndim, const int64_t *shape, unsigned mask, char *to)
{
    size_t at = (size_t)sprintf(to, "kron(");
    for (int i = 0; i < ndim; i++) {
        const char *plain = i + 1 == ndim ? "norm" : "diag";
        const char *name = shape[i] == 1 ? "identity" : mask >> i & 1 ? "tri" : plain;
        at += (size_t)sprintf(to + at, "%s%s", i ? "," : "", name);
    }
    sprintf(to + at, ")");
}

static double triangles(int ndim, const int64_t *shape, unsigned mask)
{
    double sum = 0;
    for (int i = 0; i < ndim; i++) {
        if (mask >> i & 1) sum += (double)shape[i] * (double)shape[i];
    }
    return sum;
}

/* A side sees as many fibres as the tensor has elements along the other modes. Where these are fewer than its entries,
 * and it is long, a triangle is fitted to noise for hundreds of updates. */
static bool long_side(int ndim, const int64_t *shape, int i)
{
    return shape[i] > LONG_SIDE && shape[i] > product_of(ndim, shape) / shape[i];
}

/* Whether mode i may have a triangle. A diagonal does better on a long side, at a fraction of the cost: for inputs
 * always, for outputs where Q is fitted to gradients, which have their rank. Then more than 128 outputs of a matrix
 * with long inputs have no triangle either: it would be most of the cost of a step (docs/benchmarks/torch.md). */
static bool may_mix(const psgd_plan *self, int ndim, const int64_t *shape, int i)
{
    bool fisher = self->settings.criterion == PLAN_FISHER, input = i > 0 && i + 1 == ndim;
    if (shape[i] == 1 || shape[i] > self->settings.max_factor) return false;
    if (fisher && !input && shape[i] > WIDE_LAYER && long_side(ndim, shape, ndim - 1)) return false;
    return !(fisher || input) || !long_side(ndim, shape, i);
}

/* Masks from the richest down: all subsets of the modes that may have a triangle, or for many modes those that leave
 * out the largest ones. */
static int masks_for(const psgd_plan *self, int ndim, const int64_t *shape, unsigned masks[32])
{
    unsigned allowed = 0;
    int count = 0;
    for (int i = 0; i < ndim; i++) {
        if (may_mix(self, ndim, shape, i)) allowed |= 1u << i;
    }
    if (ndim > ALL_SUBSETS) {
        for (unsigned mask = allowed; mask && count < 32;) {
            int largest = 0;
            masks[count++] = mask;
            for (int i = 0; i < ndim; i++) {
                if (mask >> i & 1 && (!(mask >> largest & 1) || shape[i] > shape[largest])) largest = i;
            }
            mask &= ~(1u << largest);
        }
        return count;
    }
    for (unsigned mask = 1u << ndim; mask-- > 1;) {
        if (mask & ~allowed) continue;
        int at = count++;
        while (at > 0 && triangles(ndim, shape, masks[at - 1]) < triangles(ndim, shape, mask)) {
            masks[at] = masks[at - 1];
            at--;
        }
        masks[at] = mask;
    }
    return count;
}

/* Everything that a tensor may get, richest first. */
static psgd_status collect(const psgd_plan *self, int ndim, const int64_t *shape, candidate *list, int *count)
{
    int64_t n = product_of(ndim, shape), wide = 0;
    char kron[SPEC_ROOM];
    unsigned masks[32];
    *count = 0;
    for (int i = 0; i < ndim; i++) wide += shape[i] > 1;
    if (n <= SHORT_VECTOR && n <= self->settings.max_factor) PSGD_TRY(offer(self, ndim, shape, "tri", list, count));
    for (int i = 0, all = wide > 1 ? masks_for(self, ndim, shape, masks) : 0; i < all; i++) {
        kron_spec(ndim, shape, masks[i], kron);
        PSGD_TRY(offer(self, ndim, shape, kron, list, count));
    }
    if (wide <= 1) PSGD_TRY(offer(self, ndim, shape, "diag", list, count));
    if (wide > 1) {
        kron_spec(ndim, shape, 0, kron);
        PSGD_TRY(offer(self, ndim, shape, kron, list, count));
    }
    return offer(self, ndim, shape, "scale", list, count);
}

static psgd_status plan_tensor(const psgd_plan *self, int ndim, const int64_t *shape, tensor_plan *to)
{
    candidate *list = psgd__alloc(self->context, MAX_CANDIDATES, sizeof list[0]);
    if (!list) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to plan a tensor");
    int count;
    psgd_status status = collect(self, ndim, shape, list, &count);
    if (status == PSGD_OK) {
        to->list = psgd__alloc(self->context, count, sizeof list[0]);
        for (int i = 0; to->list && i < count; i++) to->list[i] = list[count - 1 - i];
        to->count = to->list ? count : 0;
        if (!to->list) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to plan a tensor");
    }
    psgd__free(self->context, list);
    return status;
}

int64_t psgd_plan_total_bytes(const psgd_plan *self)
{
    int64_t total = 0;
    for (int i = 0; self && i < self->count; i++) total += psgd_plan_bytes(self, i);
    return total;
}

double psgd_plan_total_flops(const psgd_plan *self)
{
    double total = 0;
    for (int i = 0; self && i < self->count; i++) total += psgd_plan_flops(self, i);
    return total;
}

/* The cheapest step up that stays within both budgets, again and again. */
static void choose(psgd_plan *self, double bytes, double flops)
{
    for (;;) {
        double used = (double)psgd_plan_total_bytes(self), spent = psgd_plan_total_flops(self), min = HUGE_VAL;
        tensor_plan *best = NULL;
        for (int i = 0; i < self->count; i++) {
            tensor_plan *t = &self->tensors[i];
            if (t->chosen + 1 == t->count) continue;
            const candidate *now = &t->list[t->chosen], *next = now + 1;
            double more = (double)(next->bytes - now->bytes);
            bool fits = used + more <= bytes && spent + next->flops - now->flops <= flops;
            if (!fits || more >= min) continue;
            min = more;
            best = t;
        }
        if (!best) return;
        best->chosen++;
    }
}

static psgd_status check_shapes(int count, const int *ndim, const int64_t *const *shapes)
{
    if (count < 1 || !ndim || !shapes) return psgd__fail(PSGD_ERR_ARGUMENT, "a plan needs at least one tensor");
    for (int t = 0; t < count; t++) {
        int64_t n = 1;
        bool good = ndim[t] >= 1 && ndim[t] <= SPEC_MAX_DIMS && shapes[t];
        for (int i = 0; good && i < ndim[t]; i++) good = shapes[t][i] >= 1 && psgd__mul_fits(n, shapes[t][i], &n);
        if (!good || n > INT64_MAX / 64) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "tensor %d of the plan has no sizes that can be counted", t);
        }
    }
    return PSGD_OK;
}

static double memory_of(const plan_settings *set, double parameter_bytes)
{
    if (set->bytes > 0) return set->bytes;
    if (set->budget > 0) return set->budget * parameter_bytes;
    return fmax(DEFAULT_BUDGET * parameter_bytes, SMALL_PROBLEM);
}

psgd_status psgd_plan_create(const psgd_context *context, int count, const int *ndim, const int64_t *const *shapes,
                             psgd_dtype dtype, const psgd_options *options, psgd_plan **plan)
{
    if (!plan) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_plan_create: plan is NULL");
    *plan = NULL;
    plan_settings settings = {0};
    option_table table = {rows, ROWS, &settings};
    PSGD_TRY(check_shapes(count, ndim, shapes));
    PSGD_TRY(psgd__options_read(options, &table, 1));
    if (settings.time > 0 && !(settings.gradient_flops > 0)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the option time is a share of gradient-flops, which is missing");
    }

    psgd_plan *self = psgd__alloc(context, 1, sizeof *self);
    tensor_plan *tensors = psgd__alloc(context, count, sizeof tensors[0]);
    if (!self || !tensors) {
        psgd__free(context, self);
        psgd__free(context, tensors);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a plan of %d tensors", count);
    }
    *self = (psgd_plan){.context = context, .dtype = dtype, .settings = settings, .count = count, .tensors = tensors};
    double parameters = 0;
    psgd_status status = PSGD_OK;
    for (int t = 0; t < count && status == PSGD_OK; t++) {
        parameters += (double)product_of(ndim[t], shapes[t]);
        status = plan_tensor(self, ndim[t], shapes[t], &tensors[t]);
    }
    if (status != PSGD_OK) {
        psgd_plan_free(self);
        return status;
    }
    choose(self, memory_of(&settings, parameters * (double)psgd_dtype_size(dtype)),
           settings.time > 0 ? settings.time * settings.gradient_flops : HUGE_VAL);
    *plan = self;
    return PSGD_OK;
}

void psgd_plan_free(psgd_plan *self)
{
    if (!self) return;
    for (int i = 0; i < self->count; i++) psgd__free(self->context, self->tensors[i].list);
    psgd__free(self->context, self->tensors);
    psgd__free(self->context, self);
}

/* The candidate that was chosen, or the one after it; NULL where there is none. */
static const candidate *pick(const psgd_plan *self, int tensor, int ahead)
{
    if (!self || tensor < 0 || tensor >= self->count) return NULL;
    const tensor_plan *t = &self->tensors[tensor];
    return t->chosen + ahead < t->count ? &t->list[t->chosen + ahead] : NULL;
}

const char *psgd_plan_spec(const psgd_plan *self, int tensor)
{
    const candidate *c = pick(self, tensor, 0);
    return c ? c->spec : NULL;
}

int64_t psgd_plan_bytes(const psgd_plan *self, int tensor)
{
    const candidate *c = pick(self, tensor, 0);
    return c ? c->bytes : 0;
}

double psgd_plan_flops(const psgd_plan *self, int tensor)
{
    const candidate *c = pick(self, tensor, 0);
    return c ? c->flops : 0;
}

const char *psgd_plan_next_spec(const psgd_plan *self, int tensor)
{
    const candidate *c = pick(self, tensor, 1);
    return c ? c->spec : NULL;
}

int64_t psgd_plan_next_bytes(const psgd_plan *self, int tensor)
{
    const candidate *c = pick(self, tensor, 1);
    return c ? c->bytes : 0;
}

double psgd_plan_next_flops(const psgd_plan *self, int tensor)
{
    const candidate *c = pick(self, tensor, 1);
    return c ? c->flops : 0;
}

bool psgd__spec_is_auto(const char *source)
{
    while (source && *source == ' ') source++;
    if (!source || strncmp(source, "auto", 4)) return false;
    return strspn(source + 4, " ") == strlen(source + 4);
}

psgd_status psgd__spec_read(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                            psgd_dtype dtype, spec_tree *tree)
{
    psgd_plan *plan = NULL;
    *tree = (spec_tree){.context = context};
    PSGD_TRY(psgd__check_dtype(dtype));
    if (psgd__spec_is_auto(source)) {
        PSGD_TRY(psgd_plan_create(context, 1, &ndim, &shape, dtype, NULL, &plan));
        source = psgd_plan_spec(plan, 0);
    }
    psgd_status status = psgd__spec_parse(context, source, tree);
    if (status == PSGD_OK) {
        status = psgd__spec_fit(tree, ndim, shape);
        if (status == PSGD_OK && !(tree->text = psgd__strdup(context, source))) {
            status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a spec");
        }
        if (status != PSGD_OK) psgd__spec_free(tree);
    }
    psgd_plan_free(plan);
    return status;
}
