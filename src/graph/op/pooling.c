/* Max and mean pooling over windows of size x size of x [c, h, w, n]: two tables over one loop.
 *
 * Both are linear where they are differentiable, so tangents are pooled as values are. Max pooling stores which entry
 * of a window it took, the first among equals; tangents and gradients go through that entry. */
#include "graph/op.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <string.h>

typedef struct pool {
    int64_t c, h, w, n, oh, ow, size, stride;
    bool max, add;
    int32_t *taken; /* [c, oh, ow, n]: the entry of the window, for max */
    const real *from;
    real *to;
} pool;

static psgd_status pool_check(psgd_op_call *call, bool max)
{
    PSGD_TRY(op_inputs(call, 1));
    const psgd_operand *x = &call->input[0];
    const pool_options *o = call->options;
    if (x->ndim != 4) return psgd__fail(PSGD_ERR_ARGUMENT, "it takes [channels, height, width, n]");
    if (o->size < 1 || o->stride < 1 || o->size > x->shape[1] || o->size > x->shape[2] || o->size > 30000) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a window of %lld with stride %lld does not fit", (long long)o->size,
                          (long long)o->stride);
    }
    psgd_operand *y = &call->output;
    tensor_like(y, x);
    y->shape[1] = (x->shape[1] - o->size) / o->stride + 1;
    y->shape[2] = (x->shape[2] - o->size) / o->stride + 1;
    int64_t places = y->shape[0] * y->shape[1] * y->shape[2] * y->shape[3];
    if (max) call->memory_bytes = places * (int64_t)sizeof(int32_t);
    call->flops = (double)places * (double)(o->size * o->size);
    return PSGD_OK;
}

/* Offset of the samples of entry k of the window at (oy, ox) of channel c. */
static int64_t entry(const pool *p, int64_t c, int64_t oy, int64_t ox, int64_t k)
{
    int64_t iy = oy * p->stride + k / p->size, ix = ox * p->stride + k % p->size;
    return ((c * p->h + iy) * p->w + ix) * p->n;
}

static void pool_values(void *data, int64_t c)
{
    const pool *p = data;
    real share = 1 / (real)(p->size * p->size);
    for (int64_t place = 0; place < p->oh * p->ow; place++) {
        int64_t oy = place / p->ow, ox = place % p->ow, at = (c * p->oh * p->ow + place) * p->n;
        real *y = p->to + at;
        memcpy(y, p->from + entry(p, c, oy, ox, 0), (size_t)p->n * sizeof *y);
        if (p->max) memset(p->taken + at, 0, (size_t)p->n * sizeof *p->taken);
        for (int64_t k = 1; k < p->size * p->size; k++) {
            const real *x = p->from + entry(p, c, oy, ox, k);
            if (p->max) la_kernel()->take_larger(p->n, (int32_t)k, x, p->taken + at, y);
            for (int64_t j = 0; !p->max && j < p->n; j++) y[j] += x[j];
        }
        for (int64_t j = 0; !p->max && j < p->n; j++) y[j] *= share;
    }
}

/* The tangents of the entries that were taken. */
static void pool_taken(void *data, int64_t c)
{
    const pool *p = data;
    for (int64_t place = 0; place < p->oh * p->ow; place++) {
        int64_t oy = place / p->ow, ox = place % p->ow, at = (c * p->oh * p->ow + place) * p->n;
        real *ty = p->to + at;
        const int32_t *taken = p->taken + at;
        for (int64_t k = 0; k < p->size * p->size; k++) {
            la_kernel()->take_where(p->n, (int32_t)k, taken, p->from + entry(p, c, oy, ox, k), ty);
        }
    }
}

static void pool_back(void *data, int64_t c)
{
    const pool *p = data;
    real share = 1 / (real)(p->size * p->size);
    bool apart = p->stride == p->size && p->oh * p->size == p->h && p->ow * p->size == p->w;
    bool add = p->add || !apart;
    if (!p->add && !apart) memset(p->to + c * p->h * p->w * p->n, 0, (size_t)(p->h * p->w * p->n) * sizeof *p->to);
    for (int64_t place = 0; place < p->oh * p->ow; place++) {
        int64_t oy = place / p->ow, ox = place % p->ow, at = (c * p->oh * p->ow + place) * p->n;
        const real *dy = p->from + at;
        for (int64_t k = 0; k < p->size * p->size; k++) {
            real *dx = p->to + entry(p, c, oy, ox, k);
            const int32_t *taken = p->taken + at;
            if (p->max) {
                la_kernel()->give_where(p->n, (int32_t)k, taken, dy, add, dx);
            } else {
                for (int64_t j = 0; j < p->n; j++) dx[j] = add ? dx[j] + share * dy[j] : share * dy[j];
            }
        }
    }
}

static void run(psgd_op_call *call, bool max, const real *from, real *to, void (*channel)(void *, int64_t))
{
    const int64_t *x = call->input[0].shape, *y = call->output.shape;
    const pool_options *o = call->options;
    pool p = {.c = x[0],
              .h = x[1],
              .w = x[2],
              .n = x[3],
              .oh = y[1],
              .ow = y[2],
              .size = o->size,
              .stride = o->stride,
              .max = max,
              .add = call->add[0],
              .taken = call->memory,
              .from = from,
              .to = to};
    la_parallel(p.c, 2 * call->flops, channel, &p);
}

#define POOL(op, max)                                                                                                  \
    static psgd_status op##_check(psgd_op_call *call)                                                                  \
    {                                                                                                                  \
        return pool_check(call, max);                                                                                  \
    }                                                                                                                  \
    static psgd_status op##_forward(psgd_op_call *call)                                                                \
    {                                                                                                                  \
        run(call, max, X(call, 0), Y(call), pool_values);                                                              \
        return PSGD_OK;                                                                                                \
    }                                                                                                                  \
    static void op##_tangent(psgd_op_call *call)                                                                       \
    {                                                                                                                  \
        run(call, max, TX(call, 0), TY(call), max ? pool_taken : pool_values);                                         \
    }                                                                                                                  \
    static void op##_backward(psgd_op_call *call)                                                                      \
    {                                                                                                                  \
        run(call, max, DY(call), DX(call, 0), pool_back);                                                              \
    }                                                                                                                  \
    static void op##_tangent_backward(psgd_op_call *call)                                                              \
    {                                                                                                                  \
        run(call, max, TDY(call), TDX(call, 0), pool_back);                                                            \
    }                                                                                                                  \
    const psgd_op OP(op) = {OP_TABLE(#op, op##_check, op##_forward, op##_tangent, op##_backward, op##_tangent_backward)}

POOL(max_pool, true);
POOL(mean_pool, false);
