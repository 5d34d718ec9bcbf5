/* Methods and their options by name, and the life of an optimizer. */
#include "optim/optim.h"
#include "core/half.h"
#include "la/pool.h"
#include "la/isa.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *psgd_method_name(int index)
{
    return index >= 0 && index < psgd__method_count_f64() ? psgd__method_kind_f64(index)->name : NULL;
}

const char *psgd_method_summary(int index)
{
    return index >= 0 && index < psgd__method_count_f64() ? psgd__method_kind_f64(index)->summary : NULL;
}

/* psgd with a criterion has names of its own. */
static const char *const criterion_names[] = {[CRITERION_NEWTON] = "psgd-newton", [CRITERION_FISHER] = "psgd-fisher"};

/* type: that of the criterion in the name, or -1. */
static psgd_status find_method(const char *name, int *index, int *type)
{
    enum { MAX = 64 };
    const char *names[MAX], *method = name;
    int count = psgd__method_count_f64();
    *type = -1;
    for (int i = 0; i < 2; i++) {
        if (strcmp(name, criterion_names[i]) != 0) continue;
        *type = i;
        method = "psgd";
    }
    for (*index = 0; *index < count; (*index)++) {
        names[*index] = psgd_method_name(*index);
        if (!strcmp(names[*index], method)) return PSGD_OK;
    }
    names[count] = criterion_names[0];
    names[count + 1] = criterion_names[1];
    return psgd__fail(PSGD_ERR_ARGUMENT, "there is no method %s%s", name,
                      psgd__suggest_or_list("methods", name, names, count + 2).words);
}

int psgd_optimizer_option(const char *method, int index, psgd_option_info *option)
{
    int m = 0, type;
    if (method && find_method(method, &m, &type) != PSGD_OK) return 0;
    int found = index >= psgd__optim_option_count
                    ? psgd_precond_option(index - psgd__optim_option_count, option)
                    : psgd__option_at(psgd__optim_options, psgd__optim_option_count, index, option);
    if (!found) return 0;
    if (!method) {
        if (psgd__optim_by_method(option->name)) option->default_value[0] = 0;
        return 1;
    }
    if (type < 0) type = CRITERION_FISHER;
    const char *value = psgd__optim_default(psgd_method_name(m), type, false, option->name);
    if (!strcmp(option->name, "criterion")) value = option->choices[type];
    if (value) snprintf(option->default_value, sizeof option->default_value, "%s", value);
    return 1;
}

int psgd_optimizer_setting(const psgd_optimizer *self, int index, psgd_option_info *option)
{
    int own = psgd__optim_option_count;
    if (!self || !psgd_optimizer_option(self->kind->name, index, option)) return 0;
    psgd__option_in_force(index < own ? &psgd__optim_options[index] : &psgd__precond_options[index - own],
                          index < own ? (const void *)&self->settings : (const void *)&self->settings.fit, option);
    return 1;
}

static psgd_status check_settings(const method_kind *kind, const optim_settings *set)
{
    if (!kind->fits) return PSGD_OK;
    if (set->apply == APPLY_INVERSE_FISHER && !set->fit.unbiased) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "option apply inverse-fisher needs the option unbiased");
    }
    if (set->whiten == WHITEN_MOMENTUM && set->momentum == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "option whiten momentum needs a momentum above 0");
    }
    if (set->nesterov && set->momentum == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "option nesterov needs a momentum above 0");
    }
    if (set->fit.criterion == CRITERION_FISHER && set->fit.pairs > 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "option pairs is for newton here; fisher has one gradient a step");
    }
    return PSGD_OK;
}

/* named: the criterion that the name of the method has, or -1. Where neither it nor the options have one, it is the
 * paper's Newton, or else Fisher until an objective with products is bound. */
static psgd_status read_settings(psgd_optimizer *self, int named, const psgd_options *options)
{
    optim_settings *set = &self->settings;
    const char *name = self->kind->name, *asked = psgd__options_find(options, "criterion");
    PSGD_TRY(psgd__optim_read(name, named >= 0 ? named : CRITERION_NEWTON, options, set));
    if (asked && named >= 0 && set->fit.criterion != named) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the method is %s, the option criterion %s: leave one of them out",
                          criterion_names[named], asked);
    }
    self->undecided = self->kind->fits && named < 0 && !asked && set->defaults != DEFAULTS_PAPER;
    if (self->undecided) {
        self->with_products = *set;
        PSGD_TRY(psgd__optim_read(name, CRITERION_FISHER, options, set));
    } else if (set->fit.criterion == CRITERION_FISHER && named < 0) {
        PSGD_TRY(psgd__optim_read(name, CRITERION_FISHER, options, set));
    }
    return check_settings(self->kind, set);
}

static psgd_status read_tensor(psgd_optimizer *self, int index, const psgd_tensor *tensor)
{
    part *p = &self->parts[index];
    if (tensor->name) {
        snprintf(p->name, sizeof p->name, "%s", tensor->name);
    } else {
        snprintf(p->name, sizeof p->name, "tensor %d", index);
    }
    if (tensor->ndim < 1 || tensor->ndim > OPTIM_MAX_DIMS || !tensor->shape) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s must have 1 to %d dimensions and a shape", p->name, OPTIM_MAX_DIMS);
    }
    p->n = 1;
    p->from = self->total;
    p->ndim = tensor->ndim;
    p->present = true;
    p->owner = -1;
    for (int k = 0; k < tensor->ndim; k++) {
        p->shape[k] = tensor->shape[k];
        if (p->shape[k] < 1) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "dimension %d of %s has size %lld; sizes start at 1", k, p->name,
                              (long long)p->shape[k]);
        }
        if (!psgd__mul_fits(p->n, p->shape[k], &p->n)) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "%s has more elements than can be counted", p->name);
        }
    }
    if (!psgd__add_fits(self->total, p->n, &self->total)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "there are more parameters than can be counted");
    }
    if (p->n > self->largest) self->largest = p->n;
    PSGD_TRY(psgd__optim_check_rows(self->kind, &self->settings, p->name, tensor->rows));
    p->rows_max = tensor->rows < p->shape[0] ? tensor->rows : p->shape[0];
    if (self->ranks && p->rows_max > 0) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "%s has row-sparse gradients; over several ranks gradients are whole",
                          p->name);
    }
    if (self->kind->fits && self->settings.joint && tensor->spec) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "%s names the group %s, but option joint makes one group of all tensors: name it by the "
                          "option group",
                          p->name, tensor->spec);
    }
    return PSGD_OK;
}

/* The group of a tensor, and the shape that it is for. */
typedef struct group_choice {
    const char *spec;
    int ndim;
    int64_t shape[OPTIM_MAX_DIMS];
} group_choice;

static group_choice choose_group(const psgd_optimizer *self, int index, const char *source)
{
    const part *p = &self->parts[index];
    group_choice c = {.spec = source, .ndim = p->ndim};
    memcpy(c.shape, p->shape, sizeof c.shape);
    if (!psgd__spec_is_auto(source)) return c;
    int64_t width = psgd__part_width(p);
    bool narrow = width <= 4 * p->shape[0];
    c.spec = p->rows_max == 0 ? psgd_plan_spec(self->plan, index) : narrow ? "scaw" : "scan";
    if (p->ndim <= 2) return c;
    c.ndim = 2;
    c.shape[1] = width;
    return c;
}

static psgd_status create_precond(psgd_optimizer *self, int index, const char *source)
{
    part *p = &self->parts[index];
    group_choice c = choose_group(self, index, source);
    precond_settings fit = self->settings.fit;
    fit.rows = p->rows_max == 0 ? ROWS_NONE : fit.rows == ROWS_LAZY ? ROWS_LAZY : ROWS_EXACT;
    fit.here = psgd__ranks_here(self, index);
    workspace none = {.context = self->context}; /* of a preconditioner that another rank holds */
    bool mine = optim_is_mine(self, p);
    psgd_status status = psgd__precond_create(self->context, c.spec, c.ndim, c.shape, self->dtype, &fit,
                                              mine ? &self->work : &none, NULL, &p->precond);
    if (status != PSGD_OK) return psgd__fail_in(status, "%s", p->name);
    p->precond->vouched = true;
    p->precond_bytes = psgd_precond_state_bytes(p->precond);
    if (mine) return psgd__async_lane(self, index, c.ndim, c.shape, &fit, NULL);
    psgd_precond_free(p->precond);
    p->precond = NULL;
    return PSGD_OK;
}

/* Groups by shape, for tensors whose group is auto: within one budget for all of them. A tensor of more than two
 * dimensions, such as the kernels of a convolution, is the matrix [first, others]. */
static psgd_status plan_groups(psgd_optimizer *self)
{
    int count = self->part_count;
    int64_t *sizes = psgd__alloc(self->context, 2 * count, sizeof sizes[0]);
    const int64_t **shapes = psgd__alloc(self->context, count, sizeof shapes[0]);
    int *ndim = psgd__alloc(self->context, count, sizeof ndim[0]);
    psgd_status status = sizes && shapes && ndim ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a plan");
    for (int i = 0; i < count && status == PSGD_OK; i++) {
        const part *p = &self->parts[i];
        ndim[i] = p->ndim > 1 ? 2 : 1;
        shapes[i] = &sizes[2 * i];
        sizes[2 * i] = p->shape[0];
        sizes[2 * i + 1] = psgd__part_width(p);
    }
    psgd_options *options = NULL;
    if (status == PSGD_OK) status = psgd_options_create(self->context, &options);
    if (status == PSGD_OK && self->settings.fit.criterion == CRITERION_FISHER) {
        status = psgd_options_set(options, "criterion", "fisher");
    }
    if (status == PSGD_OK) {
        status = psgd_plan_create(self->context, count, ndim, shapes, self->dtype, options, &self->plan);
    }
    psgd_options_free(options);
    psgd__free(self->context, sizes);
    psgd__free(self->context, shapes);
    psgd__free(self->context, ndim);
    return status;
}

static psgd_status create_preconds(psgd_optimizer *self, const psgd_tensor *tensors)
{
    bool plans = psgd__spec_is_auto(self->settings.group);
    for (int i = 0; i < self->part_count; i++) plans |= psgd__spec_is_auto(tensors[i].spec);
    if (plans) PSGD_TRY(plan_groups(self));
    for (int i = 0; i < self->part_count && self->ranks; i++) {
        group_choice c = choose_group(self, i, tensors[i].spec ? tensors[i].spec : self->settings.group);
        PSGD_TRY(psgd__ranks_cut(self, i, c.spec, c.ndim, c.shape));
    }
    PSGD_TRY(psgd__ranks_assign(self));
    for (int i = 0; i < self->part_count; i++) {
        PSGD_TRY(create_precond(self, i, tensors[i].spec ? tensors[i].spec : self->settings.group));
    }
    psgd_plan_free(self->plan);
    self->plan = NULL;
    return PSGD_OK;
}

static psgd_status create_joint(psgd_optimizer *self)
{
    int count = self->part_count;
    precond_segments segments = {.count = count, .sizes = psgd__alloc(self->context, count, sizeof(int64_t))};
    if (!segments.sizes) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the sizes of %d tensors", count);
    for (int i = 0; i < count; i++) segments.sizes[i] = self->parts[i].n;
    precond_settings fit = self->settings.fit;
    fit.rows = ROWS_NONE; /* psgd_tensor.rows asks for row-sparse gradients, the option only says how */
    psgd_status status = psgd__precond_create(self->context, self->settings.group, 1, &self->total, self->dtype, &fit,
                                              &self->work, &segments, &self->joint);
    if (status == PSGD_OK) {
        self->joint->vouched = true;
        return psgd__async_lane(self, 0, 1, &self->total, &fit, &self->joint->segments);
    }
    return psgd__fail_in(status, "all %d tensors as one vector, here of %lld elements", count, (long long)self->total);
}

static psgd_status build(psgd_optimizer *self, psgd_comm *comm, int method, int type, int tensor_count,
                         const psgd_tensor *tensors, psgd_dtype dtype, const psgd_options *options)
{
    PSGD_TRY(read_settings(self, type, options));
    if (!psgd__options_find(options, "momentum")) {
        for (int i = 0; i < tensor_count && self->kind->fits; i++) {
            if (tensors[i].rows > 0) self->settings.momentum = self->with_products.momentum = 0;
        }
    }
    self->parts = psgd__alloc(self->context, tensor_count, sizeof self->parts[0]);
    if (!self->parts) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %d tensors", tensor_count);
    PSGD_TRY(psgd__ranks_create(self, comm, tensor_count));
    PSGD_TRY(psgd__async_create(self, tensor_count));
    for (; self->part_count < tensor_count; self->part_count++) {
        PSGD_TRY(read_tensor(self, self->part_count, &tensors[self->part_count]));
    }
    int64_t in_all = self->settings.parameters > 0 ? self->settings.parameters : self->total;
    if (self->kind->fits) {
        PSGD_TRY(psgd__optim_fit_few(options, in_all, &self->settings));
        if (self->undecided) PSGD_TRY(psgd__optim_fit_few(options, in_all, &self->with_products));
    }
    if (self->kind->fits) PSGD_TRY(self->settings.joint ? create_joint(self) : create_preconds(self, tensors));
    self->settings.group = self->with_products.group = NULL;
    PSGD_TRY(OPTIM_CALL(self, build, self, method));
    PSGD_TRY(OPTIM_CALL(self, build_clip, self));
    PSGD_TRY(psgd__ranks_build(self));
    PSGD_TRY(psgd__half_build(self, dtype));
    if (self->half && self->settings.delay > 0) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "option delay is for f32 and f64 arrays; half precision is fitted at once");
    }
    PSGD_TRY(OPTIM_CALL(self, build_rows, self));
    return psgd__async_start(self);
}

static psgd_status create(const psgd_context *context, psgd_comm *comm, const char *method, int tensor_count,
                          const psgd_tensor *tensors, psgd_dtype dtype, const psgd_options *options,
                          psgd_optimizer **optimizer)
{
    if (!method || !tensors || tensor_count < 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "an optimizer needs a method and at least one tensor");
    }
    if (!psgd__is_half(dtype)) PSGD_TRY(psgd__check_dtype(dtype));
    PSGD_TRY(psgd__isa_check());
    int index, type;
    PSGD_TRY(find_method(method, &index, &type));
    psgd_optimizer *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for an optimizer");
    self->context = self->work.context = context;
    self->dtype = psgd__is_half(dtype) ? PSGD_F32 : dtype;
    self->kind = psgd__method_kind_f64(index);
    self->now.best_validation = HUGE_VAL;
    self->now.plateau = 1;
    self->now.first_rms = -1;
    if (self->kind->fits) self->work.slices = la_threads() < tensor_count ? la_threads() : tensor_count;

    psgd_status status = build(self, comm, index, type, tensor_count, tensors, dtype, options);
    if (status != PSGD_OK) {
        psgd_optimizer_free(self);
        return status;
    }
    *optimizer = self;
    return PSGD_OK;
}

/* Where one rank fails all do: the others would wait for it in the first step. */
psgd_status psgd_optimizer_create_comm(const psgd_context *context, psgd_comm *comm, const char *method,
                                       int tensor_count, const psgd_tensor *tensors, psgd_dtype dtype,
                                       const psgd_options *options, psgd_optimizer **optimizer)
{
    if (!optimizer) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_optimizer_create: optimizer is NULL");
    *optimizer = NULL;
    psgd_status own = create(context, comm, method, tensor_count, tensors, dtype, options, optimizer);
    psgd_status status = psgd_comm_agree(comm, own);
    if (status == PSGD_OK) return PSGD_OK;
    psgd_optimizer_free(*optimizer);
    *optimizer = NULL;
    return status;
}

psgd_status psgd_optimizer_create(const psgd_context *context, const char *method, int tensor_count,
                                  const psgd_tensor *tensors, psgd_dtype dtype, const psgd_options *options,
                                  psgd_optimizer **optimizer)
{
    return psgd_optimizer_create_comm(context, NULL, method, tensor_count, tensors, dtype, options, optimizer);
}

void psgd_optimizer_free(psgd_optimizer *self)
{
    if (!self) return;
    psgd__async_free(self);
    psgd__ranks_free(self);
    psgd__half_free(self);
    for (int i = 0; i < self->part_count; i++) psgd_precond_free(self->parts[i].precond);
    psgd_precond_free(self->joint);
    psgd_plan_free(self->plan);
    psgd__free(self->context, self->parts);
    psgd__free(self->context, self->state);
    psgd__free(self->context, self->direction);
    psgd__free(self->context, self->probe);
    psgd__free(self->context, self->closure);
    psgd__free(self->context, self->clipped);
    psgd__free(self->context, self->clipped_list);
    psgd__free(self->context, self->packed);
    psgd__free(self->context, self->row_theta);
    psgd__work_free(&self->work);
    psgd__free(self->context, self);
}
