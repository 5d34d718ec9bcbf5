/* Methods and their options by name, and the life of an optimizer. */
#include "optim/optim.h"
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

static psgd_status find_method(const char *name, int *index)
{
    enum { MAX = 64 };
    const char *names[MAX];
    int count = psgd__method_count_f64();
    for (*index = 0; *index < count; (*index)++) {
        names[*index] = psgd_method_name(*index);
        if (!strcmp(names[*index], name)) return PSGD_OK;
    }
    return psgd__fail(PSGD_ERR_ARGUMENT, "there is no method %s%s", name, psgd__suggest("", name, names, count).words);
}

/* Where methods differ in their defaults. */
static optim_settings presets(const method_kind *kind)
{
    return (optim_settings){.lr = kind->lr, .momentum = kind->momentum, .beta2 = kind->beta2, .decay = kind->decay};
}

int psgd_optimizer_option(const char *method, int index, psgd_option_info *option)
{
    int m = 0;
    if (method && find_method(method, &m) != PSGD_OK) return 0;
    if (index >= psgd__optim_option_count) return psgd_precond_option(index - psgd__optim_option_count, option);
    if (!psgd__option_at(psgd__optim_options, psgd__optim_option_count, index, option)) return 0;
    if (method && !*option->default_value) {
        optim_settings set = presets(psgd__method_kind_f64(m));
        double value = *(double *)((char *)&set + psgd__optim_options[index].offset);
        psgd__print(option->default_value, sizeof option->default_value, "%.15g", value);
    }
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

static psgd_status read_settings(psgd_optimizer *self, const psgd_options *options)
{
    optim_settings *set = &self->settings;
    const method_kind *kind = self->kind;
    *set = presets(kind);
    option_table tables[] = {{psgd__optim_options, psgd__optim_option_count, set},
                             {psgd__precond_options, psgd__precond_option_count, &set->fit}};
    PSGD_TRY(psgd__options_read(options, tables, 2));
    return check_settings(kind, set);
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
    if (!self->kind->fits) return PSGD_OK;
    if (self->settings.joint && tensor->spec) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "%s names the group %s, but option joint makes one group of all tensors: name it by the "
                          "option group",
                          p->name, tensor->spec);
    }
    if (self->settings.joint) return PSGD_OK;

    const char *source = tensor->spec ? tensor->spec : self->settings.group;
    precond_settings fit = self->settings.fit;
    fit.rows = p->rows_max == 0 ? ROWS_NONE : fit.rows == ROWS_LAZY ? ROWS_LAZY : ROWS_EXACT;
    psgd_status status = psgd__precond_create(self->context, source, tensor->ndim, p->shape, self->dtype, &fit,
                                              &self->work, NULL, &p->precond);
    if (status != PSGD_OK) return psgd__fail_in(status, "%s", p->name);
    p->precond->vouched = true;
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
        return PSGD_OK;
    }
    return psgd__fail_in(status, "all %d tensors as one vector, here of %lld elements", count, (long long)self->total);
}

static psgd_status build(psgd_optimizer *self, int method, int tensor_count, const psgd_tensor *tensors,
                         const psgd_options *options)
{
    PSGD_TRY(read_settings(self, options));
    self->parts = psgd__alloc(self->context, tensor_count, sizeof self->parts[0]);
    if (!self->parts) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %d tensors", tensor_count);
    for (; self->part_count < tensor_count; self->part_count++) {
        part *p = &self->parts[self->part_count];
        psgd_status status = read_tensor(self, self->part_count, &tensors[self->part_count]);
        if (status != PSGD_OK) {
            psgd_precond_free(p->precond);
            return status;
        }
    }
    if (self->settings.joint && self->kind->fits) PSGD_TRY(create_joint(self));
    self->settings.group = NULL;
    PSGD_TRY(OPTIM_CALL(self, build, self, method));
    PSGD_TRY(OPTIM_CALL(self, build_clip, self));
    return OPTIM_CALL(self, build_rows, self);
}

psgd_status psgd_optimizer_create(const psgd_context *context, const char *method, int tensor_count,
                                  const psgd_tensor *tensors, psgd_dtype dtype, const psgd_options *options,
                                  psgd_optimizer **optimizer)
{
    if (!optimizer) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_optimizer_create: optimizer is NULL");
    *optimizer = NULL;
    if (!method || !tensors || tensor_count < 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "an optimizer needs a method and at least one tensor");
    }
    PSGD_TRY(psgd__check_dtype(dtype));
    PSGD_TRY(psgd__isa_check());
    int index;
    PSGD_TRY(find_method(method, &index));
    psgd_optimizer *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for an optimizer");
    self->context = self->work.context = context;
    self->dtype = dtype;
    self->kind = psgd__method_kind_f64(index);
    self->now.best_validation = HUGE_VAL;
    self->now.plateau = 1;
    self->now.first_norm = -1;
    if (self->kind->fits) self->work.slices = la_threads() < tensor_count ? la_threads() : tensor_count;

    psgd_status status = build(self, index, tensor_count, tensors, options);
    if (status != PSGD_OK) {
        psgd_optimizer_free(self);
        return status;
    }
    *optimizer = self;
    return PSGD_OK;
}

void psgd_optimizer_free(psgd_optimizer *self)
{
    if (!self) return;
    for (int i = 0; i < self->part_count; i++) psgd_precond_free(self->parts[i].precond);
    psgd_precond_free(self->joint);
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
