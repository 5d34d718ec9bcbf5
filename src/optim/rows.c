/* The public face of steps with row-sparse gradients: everything is checked here. */
#include "optim/optim.h"
#include "core/rows.h"

#define TYPED_CALL(self, function, ...) PSGD_PICK((self)->dtype, psgd__optim_##function)(__VA_ARGS__)

psgd_status psgd__optim_check_rows(const psgd_optimizer *self, int tensor, const psgd_tensor *given)
{
    const optim_settings *set = &self->settings;
    const method_kind *kind = self->kind;
    if (given->rows == 0) return PSGD_OK;
    if (given->rows < 0) return psgd__fail(PSGD_ERR_ARGUMENT, "tensor %d: rows must not be negative", tensor);
    const char *what = set->l2 > 0 ? "l2" : set->decay > 0 ? "decay" : NULL;
    if (kind->fits && set->momentum > 0) what = "momentum";
    if (kind->fits && set->joint) what = "joint";
    if (!kind->rows) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "tensor %d has row-sparse gradients, and %s moves every row at every step; sgd, adagrad, "
                          "sparse-adam and psgd take them",
                          tensor, kind->name);
    }
    if (!what) return PSGD_OK;
    return psgd__fail(PSGD_ERR_UNSUPPORTED,
                      "tensor %d has row-sparse gradients, and the option %s moves every row at every step", tensor,
                      what);
}

static psgd_status check_rows(const psgd_optimizer *self, int tensor, const psgd_rows *rows)
{
    const part *p = &self->parts[tensor];
    if (p->rows_max == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "tensor %d was made for whole gradients; psgd_tensor.rows is 0", tensor);
    }
    if (rows->count > p->rows_max) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "tensor %d was made for gradients of at most %lld rows, not %lld", tensor,
                          (long long)p->rows_max, (long long)rows->count);
    }
    psgd_status status = psgd__rows_check(rows, p->shape[0]);
    return status == PSGD_OK ? PSGD_OK : psgd__fail_in(status, "tensor %d", tensor);
}

static psgd_status check_arrays(const psgd_rows *const *rows, int count, const void *const *list, const char *name)
{
    for (int i = 0; i < count; i++) {
        bool none = rows && rows[i] && rows[i]->count == 0;
        if (!list || (!list[i] && !none))
            return psgd__fail(PSGD_ERR_ARGUMENT, "%s has no array for tensor %d", name, i);
    }
    return PSGD_OK;
}

psgd_status psgd_optimizer_step_rows(psgd_optimizer *self, void *const *theta, const psgd_rows *const *rows,
                                     const void *const *gradient, const void *const *v, const void *const *h)
{
    if (!self || !rows) return psgd__fail(PSGD_ERR_ARGUMENT, "a step on rows needs an optimizer and their lists");
    int count = self->part_count, some = 0;
    for (int i = 0; i < count; i++) some += rows[i] != NULL;
    if (some == 0) return psgd_optimizer_step(self, theta, gradient, v, h);
    PSGD_TRY(check_arrays(NULL, count, (const void *const *)theta, "theta"));
    PSGD_TRY(check_arrays(rows, count, gradient, "gradient"));
    for (int i = 0; i < count; i++) {
        if (rows[i]) PSGD_TRY(check_rows(self, i, rows[i]));
    }
    if (psgd_optimizer_wants_product(self)) {
        PSGD_TRY(check_arrays(rows, count, v, "v"));
        PSGD_TRY(check_arrays(rows, count, h, "h"));
    }
    return TYPED_CALL(self, step_rows, self, theta, rows, gradient, v, h);
}

psgd_status psgd_optimizer_draw_rows(const psgd_optimizer *self, int tensor, const psgd_rows *rows, void *v)
{
    if (!self || !rows || tensor < 0 || tensor >= self->part_count || (rows->count > 0 && !v)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "draw needs an optimizer, one of its tensors (not %d), rows and v",
                          tensor);
    }
    PSGD_TRY(check_rows(self, tensor, rows));
    TYPED_CALL(self, draw_rows, self, tensor, rows, v);
    return PSGD_OK;
}
