/* h_t = tanh(W [x_t; h_(t-1); 1]), W [hidden, in + hidden + 1].
 *
 * da_t = (1 - h_t^2) dh_t, dh_t = dy_t + Wh'da_(t+1); tda_t = (1 - h^2) tdh - 2 h th dh. The output is h itself. The
 * state before the first time is a constant: what psgd_graph_carry kept. */
#include "graph/op/recurrent.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <string.h>

typedef struct rnn_memory {
    real *da, *dh, *tda, *tdh; /* [times, hidden, n] each */
} rnn_memory;

static rnn_memory memory_of(const psgd_op_call *call)
{
    real *start = call->memory;
    int64_t size = call->output.size;
    return (rnn_memory){start, start + size, start + 2 * size, start + 3 * size};
}

static psgd_status rnn_check(psgd_op_call *call)
{
    PSGD_TRY(recurrent_check(call, 1));
    const int64_t *y = call->output.shape;
    call->memory_bytes = 4 * y[0] * y[1] * y[2] * (int64_t)sizeof(real);
    recurrent_reserve(call);
    call->state_size = y[1] * y[2];
    return PSGD_OK;
}

static void forward_chunk(void *data, int64_t chunk)
{
    psgd_op_call *call = data;
    recurrent r;
    recurrent_open(call, chunk, &r);
    for (int64_t t = 0; t < r.times; t++) {
        real *h = Y(call) + t * r.hidden * r.n + r.from;
        const real *before = t ? h - r.hidden * r.n : (const real *)call->state + r.from;
        recurrent_mix(&r, X(call, 1), X(call, 0) + t * r.in * r.n + r.from, before, true, false, h);
        for (int64_t i = 0; i < r.hidden; i++) la_kernel()->apply(LA_TANH, 0, r.count, h + i * r.n, h + i * r.n);
    }
}

static psgd_status rnn_forward(psgd_op_call *call)
{
    la_parallel(recurrent_chunks(call), call->flops, forward_chunk, call);
    return PSGD_OK;
}

static void tangent_chunk(void *data, int64_t chunk)
{
    psgd_op_call *call = data;
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    recurrent r;
    recurrent_open(call, chunk, &r);
    for (int64_t t = 0; t < r.times; t++) {
        int64_t at = t * r.hidden * r.n + r.from, x_at = t * r.in * r.n + r.from, step = r.hidden * r.n;
        const real *h = Y(call) + at, *before = t ? h - step : (const real *)call->state + r.from;
        real *th = TY(call) + at;
        recurrent_mix(&r, X(call, 1), live_x ? TX(call, 0) + x_at : NULL, t ? th - step : NULL, false, false, th);
        if (live_W) recurrent_mix(&r, TX(call, 1), X(call, 0) + x_at, before, true, true, th);
        for (int64_t i = 0; i < r.hidden; i++) {
            la_kernel()->slope(LA_TANH, 0, r.count, h + i * r.n, th + i * r.n, false, th + i * r.n);
        }
    }
}

static void rnn_tangent(psgd_op_call *call)
{
    la_parallel(recurrent_chunks(call), call->flops, tangent_chunk, call);
}

static void copy_rows(const recurrent *r, const real *from, real *to)
{
    for (int64_t i = 0; i < r->hidden; i++) memcpy(to + i * r->n, from + i * r->n, (size_t)r->count * sizeof *to);
}

static void backward_chunk(void *data, int64_t chunk)
{
    psgd_op_call *call = data;
    rnn_memory m = memory_of(call);
    recurrent r;
    recurrent_open(call, chunk, &r);
    for (int64_t t = r.times - 1; t >= 0; t--) {
        int64_t step = r.hidden * r.n, at = t * step + r.from;
        copy_rows(&r, DY(call) + at, m.dh + at);
        if (t + 1 < r.times) recurrent_mix_transpose(&r, X(call, 1), m.da + at + step, false, true, m.dh + at);
        for (int64_t i = 0; i < r.hidden; i++) {
            int64_t row = at + i * r.n;
            la_kernel()->slope(LA_TANH, 0, r.count, Y(call) + row, m.dh + row, false, m.da + row);
        }
        if (!call->input[0].live) continue;
        real *dx = DX(call, 0) + t * r.in * r.n + r.from;
        recurrent_mix_transpose(&r, X(call, 1), m.da + at, true, call->add[0], dx);
    }
}

static void rnn_backward(psgd_op_call *call)
{
    la_parallel(recurrent_chunks(call), call->flops, backward_chunk, call);
    if (!call->input[1].live) return;
    recurrent_weights(call, call->output.shape[1], memory_of(call).da, X(call, 0), Y(call), call->state, true,
                      call->add[1], DX(call, 1));
}

static void tangent_backward_chunk(void *data, int64_t chunk)
{
    psgd_op_call *call = data;
    rnn_memory m = memory_of(call);
    bool live_W = call->input[1].live;
    recurrent r;
    recurrent_open(call, chunk, &r);
    for (int64_t t = r.times - 1; t >= 0; t--) {
        int64_t step = r.hidden * r.n, at = t * step + r.from;
        copy_rows(&r, TDY(call) + at, m.tdh + at);
        if (t + 1 < r.times) {
            recurrent_mix_transpose(&r, X(call, 1), m.tda + at + step, false, true, m.tdh + at);
            if (live_W) recurrent_mix_transpose(&r, TX(call, 1), m.da + at + step, false, true, m.tdh + at);
        }
        for (int64_t i = 0; i < r.hidden; i++) {
            int64_t row = at + i * r.n;
            la_kernel()->curve(LA_TANH, 0, r.count, Y(call) + row, TY(call) + row, m.dh + row, m.tdh + row, false,
                               m.tda + row);
        }
        if (!call->input[0].live) continue;
        real *tdx = TDX(call, 0) + t * r.in * r.n + r.from;
        recurrent_mix_transpose(&r, X(call, 1), m.tda + at, true, call->add[0], tdx);
        if (live_W) recurrent_mix_transpose(&r, TX(call, 1), m.da + at, true, true, tdx);
    }
}

static void rnn_tangent_backward(psgd_op_call *call)
{
    rnn_memory m = memory_of(call);
    int64_t hidden = call->output.shape[1];
    la_parallel(recurrent_chunks(call), call->flops, tangent_backward_chunk, call);
    if (!call->input[1].live) return;
    recurrent_weights(call, hidden, m.tda, X(call, 0), Y(call), call->state, true, call->add[1], TDX(call, 1));
    recurrent_weights(call, hidden, m.da, call->input[0].live ? TX(call, 0) : NULL, TY(call), NULL, false, true,
                      TDX(call, 1));
}

static void rnn_carry(psgd_op_call *call)
{
    int64_t size = call->state_size;
    memcpy(call->state, Y(call) + call->output.size - size, (size_t)size * sizeof(real));
}

const psgd_op OP(rnn) = {OP_KERNELS(rnn), .carry = rnn_carry};
