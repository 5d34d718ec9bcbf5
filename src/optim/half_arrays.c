#include "optim/half_arrays.h"
#include "core/half.h"
#include "optim/optim.h"

/* Lists of pointers into consecutive arrays of copies times a tensor's elements. */
static float *lay_out(const psgd_optimizer *self, int64_t copies, float *at, void **list)
{
    for (int i = 0; i < self->part_count; i++) {
        list[i] = at;
        at += copies * self->parts[i].n;
    }
    return at;
}

psgd_status psgd__half_build(psgd_optimizer *self, psgd_dtype dtype)
{
    if (!psgd__is_half(dtype)) return PSGD_OK;
    int64_t pairs = psgd_optimizer_pairs(self), copies = 2 + (optim_uses_products(self) ? 2 * pairs : 0), all, drawn;
    optim_half *half = self->half = psgd__alloc(self->context, 1, sizeof *half);
    if (!half) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for an optimizer in half precision");
    half->dtype = dtype;
    if (!psgd__mul_fits(self->total, copies, &all) || !psgd__mul_fits(self->largest, pairs, &drawn) ||
        !psgd__add_fits(all, drawn, &all)) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "the arrays of a step are larger than can be counted");
    }
    half->slab = psgd__alloc(self->context, all, sizeof(float));
    half->list = psgd__alloc(self->context, 8 * (int64_t)self->part_count, sizeof(void *));
    if (!half->slab || !half->list) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld parameters as floats", (long long)self->total);
    }
    void **lists[4];
    for (int k = 0; k < 4; k++) lists[k] = half->list + (4 + k) * self->part_count;
    half->theta = lists[0];
    half->gradient = lists[1];
    float *at = lay_out(self, 1, half->slab, half->theta);
    at = lay_out(self, 1, at, half->gradient);
    if (optim_uses_products(self)) {
        half->v = lists[2];
        half->h = lists[3];
        at = lay_out(self, pairs, at, half->v);
        at = lay_out(self, pairs, at, half->h);
    }
    half->drawn = at;
    return PSGD_OK;
}

void psgd__half_free(psgd_optimizer *self)
{
    if (!self->half) return;
    psgd__free(self->context, self->half->slab);
    psgd__free(self->context, self->half->list);
    psgd__free(self->context, self->half);
}

psgd_status psgd__half_refuse(const psgd_optimizer *self, const char *what)
{
    if (!self->half) return PSGD_OK;
    return psgd__fail(PSGD_ERR_UNSUPPORTED,
                      "%s is not for arrays of %s: make the optimizer for f32, and round the parameters yourself", what,
                      psgd_dtype_name(self->half->dtype));
}

/* The elements that a caller's array of one pair has. */
static int64_t elements(const part *p, const psgd_rows *rows)
{
    return rows ? rows->count * psgd__part_width(p) : p->n;
}

/* The rows of a parameter that a step touches, in place. */
static void widen_theta(const psgd_optimizer *self, int i, const psgd_rows *rows, const uint16_t *theta)
{
    const part *p = &self->parts[i];
    float *to = self->half->theta[i];
    int64_t n = psgd__part_width(p);
    if (!rows) psgd__half_widen(self->half->dtype, p->n, theta, to);
    for (int64_t k = 0; rows && k < rows->count; k++) {
        psgd__half_widen(self->half->dtype, n, theta + rows->index[k] * n, to + rows->index[k] * n);
    }
}

half_lists psgd__half_lists(const psgd_optimizer *self, const psgd_rows *const *rows, half_lists given)
{
    const optim_half *half = self->half;
    int count = self->part_count;
    int64_t pairs = psgd_optimizer_pairs(self);
    void **theta = half->list, **gradient = theta + count, **v = gradient + count, **h = v + count;
    bool products = half->h && given.v && given.h;
    for (int i = 0; i < count; i++) {
        const psgd_rows *some = rows ? rows[i] : NULL;
        int64_t n = elements(&self->parts[i], some);
        bool here = given.gradient[i] || some, pair = products && given.h[i] && given.v[i];
        theta[i] = here && given.theta ? half->theta[i] : NULL;
        gradient[i] = given.gradient[i] ? half->gradient[i] : NULL;
        v[i] = pair ? half->v[i] : NULL;
        h[i] = pair ? half->h[i] : NULL;
        if (theta[i]) widen_theta(self, i, some, given.theta[i]);
        if (gradient[i]) psgd__half_widen(half->dtype, n, given.gradient[i], gradient[i]);
        if (pair) psgd__half_widen(half->dtype, n * pairs, given.v[i], v[i]);
        if (pair) psgd__half_widen(half->dtype, n * pairs, given.h[i], h[i]);
    }
    return (half_lists){theta, (const void *const *)gradient, products ? (const void *const *)v : NULL,
                        products ? (const void *const *)h : NULL};
}

void psgd__half_store(const psgd_optimizer *self, const psgd_rows *const *rows, int64_t step, void *const *theta)
{
    const optim_half *half = self->half;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        const psgd_rows *some = rows ? rows[i] : NULL;
        const float *from = half->list[i];
        if (!from) continue;
        rng_stream stream = psgd__rng_stream((uint64_t)self->settings.seed, RNG_ROUND,
                                             (uint64_t)(self->settings.first_tensor + i), (uint64_t)step);
        uint16_t *to = theta[i];
        int64_t n = psgd__part_width(p);
        if (!some) psgd__half_round(half->dtype, &stream, 0, p->n, from, to);
        for (int64_t k = 0; some && k < some->count; k++) {
            int64_t at = some->index[k] * n;
            psgd__half_round(half->dtype, &stream, at, n, from + at, to + at);
        }
    }
}

psgd_status psgd__half_draw(const psgd_optimizer *self, int tensor, const psgd_rows *rows, void *v)
{
    const optim_half *half = self->half;
    int64_t n = rows ? elements(&self->parts[tensor], rows) : self->parts[tensor].n * psgd_optimizer_pairs(self);
    PSGD_TRY(psgd__optim_draw_f32(self, tensor, rows, half->drawn));
    psgd__half_narrow(half->dtype, n, half->drawn, v);
    return PSGD_OK;
}
