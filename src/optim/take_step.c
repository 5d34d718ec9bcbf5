/* The public face of steps, with whole and with row-sparse gradients: everything is checked here. */
#include "optim/optim.h"

int64_t psgd__part_width(const part *p)
{
    int64_t product = 1;
    for (int k = 1; k < p->ndim; k++) product *= p->shape[k];
    return product;
}

psgd_status psgd__optim_check_rows(const method_kind *kind, const optim_settings *set, const char *name, int64_t rows)
{
    if (rows == 0) return PSGD_OK;
    if (rows < 0) return psgd__fail(PSGD_ERR_ARGUMENT, "%s: rows must not be negative", name);
    if (!kind->rows) {
        return psgd__fail(
            PSGD_ERR_UNSUPPORTED,
            "%s has row-sparse gradients, and %s moves every row at every step; sgd, adagrad, sparse-adam "
            "and psgd take them",
            name, kind->name);
    }
    if (kind->fits && set->joint) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "%s has row-sparse gradients; the option joint takes dense gradients only", name);
    }
    const char *what = set->l2 > 0                       ? "l2"
                       : set->decay > 0                  ? "decay"
                       : kind->fits && set->momentum > 0 ? "momentum"
                                                         : NULL;
    if (!what) return PSGD_OK;
    return psgd__fail(PSGD_ERR_UNSUPPORTED,
                      "%s has row-sparse gradients, and the option %s moves every row at every step", name, what);
}

static psgd_status check_rows(const psgd_optimizer *self, int tensor, const psgd_rows *rows)
{
    const part *p = &self->parts[tensor];
    if (p->rows_max == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s was made for whole gradients; psgd_tensor.rows is 0", p->name);
    }
    if (rows->count > p->rows_max) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s was made for gradients of at most %lld rows, not %lld", p->name,
                          (long long)p->rows_max, (long long)rows->count);
    }
    psgd_status status = psgd__rows_check(rows, p->shape[0]);
    return status == PSGD_OK ? PSGD_OK : psgd__fail_in(status, "%s", p->name);
}

/* One tensor that has a gradient. */
static psgd_status check_tensor(const psgd_optimizer *self, int i, const void *const *v, const void *const *h)
{
    if (v && h && (v[i] || !h[i])) return PSGD_OK;
    if (!psgd_optimizer_tensor_wants_product(self, i)) return PSGD_OK;
    if (!v || !h) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "step %lld needs v and h = Hv (psgd_optimizer_wants_product tells when); without them, use "
                          "criterion fisher, or bind an objective for finite differences",
                          (long long)self->now.step);
    }
    return psgd__fail(PSGD_ERR_ARGUMENT, "there is an h but no v for %s", self->parts[i].name);
}

/* Where v is integrated out, the joint fit has no v that could leave a tensor out. */
static psgd_status check_absent(const psgd_optimizer *self, int i)
{
    if (!self->joint || !self->settings.fit.integrate || !psgd__optim_update_due(self, i)) return PSGD_OK;
    return psgd__fail(PSGD_ERR_UNSUPPORTED, "%s has no gradient; a joint fit with integrate needs all of them",
                      self->parts[i].name);
}

static psgd_status check_step(const psgd_optimizer *self, const psgd_rows *const *rows, const void *const *gradient,
                              const void *const *v, const void *const *h)
{
    if (!self || !gradient) return psgd__fail(PSGD_ERR_ARGUMENT, "a step needs an optimizer and a list of gradients");
    if (self->kind->searches) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "%s evaluates the function where it likes: bind an objective and call psgd_optimizer_iterate",
                          self->kind->name);
    }
    for (int i = 0; i < self->part_count; i++) {
        const psgd_rows *some = rows ? rows[i] : NULL;
        if (some) PSGD_TRY(check_rows(self, i, some));
        if (some && some->count > 0 && !gradient[i]) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "gradient has no array for the rows of %s", self->parts[i].name);
        }
        PSGD_TRY(gradient[i] ? check_tensor(self, i, v, h) : some ? PSGD_OK : check_absent(self, i));
    }
    return PSGD_OK;
}

psgd_status psgd_optimizer_step_rows(psgd_optimizer *self, void *const *theta, const psgd_rows *const *rows,
                                     const void *const *gradient, const void *const *v, const void *const *h)
{
    PSGD_TRY(check_step(self, rows, gradient, v, h));
    int some = 0;
    for (int i = 0; i < self->part_count; i++) {
        if (gradient[i] && (!theta || !theta[i])) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "theta has no array for %s", self->parts[i].name);
        }
        some += rows && rows[i];
    }
    half_lists in = {theta, gradient, v, h};
    int64_t step = self->now.step, skipped = self->now.skipped;
    if (self->half) in = psgd__half_lists(self, rows, in);
    PSGD_TRY(psgd__ranks_sum(self, &in.gradient, &in.h));
    PSGD_TRY(some ? OPTIM_CALL(self, step_rows, self, in.theta, rows, in.gradient, in.v, in.h)
                  : OPTIM_CALL(self, step, self, in.theta, in.gradient, in.v, in.h));
    if (self->half && self->now.skipped == skipped) psgd__half_store(self, rows, step, theta);
    return PSGD_OK;
}

psgd_status psgd_optimizer_step(psgd_optimizer *self, void *const *theta, const void *const *gradient,
                                const void *const *v, const void *const *h)
{
    return psgd_optimizer_step_rows(self, theta, NULL, gradient, v, h);
}

psgd_status psgd_optimizer_check(const psgd_optimizer *self, const psgd_rows *const *rows, const void *const *gradient,
                                 const void *const *v, const void *const *h)
{
    PSGD_TRY(check_step(self, rows, gradient, v, h));
    half_lists in = {NULL, gradient, v, h};
    if (self->half) in = psgd__half_lists(self, rows, in);
    PSGD_TRY(OPTIM_CALL(self, check, self, rows, in.gradient, in.v, in.h));
    return psgd__async_check((psgd_optimizer *)self);
}

psgd_status psgd_optimizer_draw_rows(const psgd_optimizer *self, int tensor, const psgd_rows *rows, void *v)
{
    if (!self || !rows || tensor < 0 || tensor >= self->part_count || (rows->count > 0 && !v)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "draw needs an optimizer, one of its tensors (not %d), rows and v",
                          tensor);
    }
    PSGD_TRY(check_rows(self, tensor, rows));
    return self->half ? psgd__half_draw(self, tensor, rows, v) : OPTIM_CALL(self, draw, self, tensor, rows, v);
}
