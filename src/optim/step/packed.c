/* A step on some rows of a tensor is a step on a smaller tensor: the parameters and the method's state of those rows
 * are packed one after the other, the step that all methods share runs on them, and they are copied back. What is joint
 * over all tensors (clipping, the test for non-finite values, schedules, counters) stays so. */
#include "optim/method/method.h"

#include <string.h>

/* Room for the parameters and the state of as many rows as a gradient of each tensor may have. */
psgd_status PSGD_TYPED(psgd__optim_build_rows)(psgd_optimizer *self)
{
    int64_t total = 0;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        int64_t copies = 1 + p->state_size / p->n, size;
        if (!psgd__mul_fits(p->rows_max * psgd__part_width(p), copies, &size) || !psgd__add_fits(total, size, &total)) {
            return psgd__fail(PSGD_ERR_NO_MEMORY, "the rows of %s are more than can be counted", p->name);
        }
    }
    if (total == 0) return PSGD_OK;
    self->packed = psgd__alloc(self->context, total, sizeof(real));
    self->row_theta = psgd__alloc(self->context, self->part_count, sizeof *self->row_theta);
    if (!self->packed || !self->row_theta) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for rows of gradients");
    real *at = self->packed;
    for (int i = 0; i < self->part_count; i++) {
        part *p = &self->parts[i];
        if (p->rows_max == 0) continue;
        p->packed = at;
        at += p->rows_max * psgd__part_width(p) * (1 + p->state_size / p->n);
    }
    return PSGD_OK;
}

static void gather(const psgd_rows *rows, int64_t n, const real *from, real *to)
{
    for (int64_t i = 0; i < rows->count; i++) memcpy(to + i * n, from + rows->index[i] * n, (size_t)n * sizeof *to);
}

static void scatter(const psgd_rows *rows, int64_t n, const real *from, real *to)
{
    for (int64_t i = 0; i < rows->count; i++) memcpy(to + rows->index[i] * n, from + i * n, (size_t)n * sizeof *to);
}

/* What a part is when no step runs. */
typedef struct whole {
    int64_t n;
    real *state;
} whole;

static whole whole_of(const psgd_optimizer *self, int tensor)
{
    const part *p = &self->parts[tensor];
    whole w = {.n = p->shape[0] * psgd__part_width(p), .state = self->state};
    for (int i = 0; i < tensor; i++) w.state += self->parts[i].state_size;
    return w;
}

static void pack(psgd_optimizer *self, int tensor, const psgd_rows *rows, const real *theta)
{
    part *p = &self->parts[tensor];
    whole w = whole_of(self, tensor);
    int64_t n = psgd__part_width(p), some = rows->count * n;
    real *packed = p->packed;
    gather(rows, n, theta, packed);
    for (int64_t k = 0; k < p->state_size / w.n; k++) gather(rows, n, w.state + k * w.n, packed + (k + 1) * some);
    p->rows = rows;
    p->n = some;
    p->state = packed + some;
}

static void unpack(psgd_optimizer *self, int tensor, real *theta)
{
    part *p = &self->parts[tensor];
    whole w = whole_of(self, tensor);
    int64_t n = psgd__part_width(p), some = p->n;
    const real *packed = p->packed;
    scatter(p->rows, n, packed, theta);
    for (int64_t k = 0; k < p->state_size / w.n; k++) scatter(p->rows, n, packed + (k + 1) * some, w.state + k * w.n);
    p->rows = NULL;
    p->n = w.n;
    p->state = w.state;
}

psgd_status PSGD_TYPED(psgd__optim_step_rows)(psgd_optimizer *self, void *const *theta, const psgd_rows *const *rows,
                                              const void *const *gradient, const void *const *v, const void *const *h)
{
    for (int i = 0; i < self->part_count; i++) {
        self->row_theta[i] = rows[i] ? self->parts[i].packed : theta[i];
        if (rows[i]) pack(self, i, rows[i], theta[i]);
    }
    if (self->async) self->async->caller_theta = theta;
    psgd_status status = PSGD_TYPED(psgd__optim_step)(self, self->row_theta, gradient, v, h);
    if (self->async) self->async->caller_theta = NULL;
    for (int i = 0; i < self->part_count; i++) {
        if (rows[i]) unpack(self, i, theta[i]);
    }
    return status;
}
