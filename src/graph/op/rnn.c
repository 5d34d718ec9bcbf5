/* h_t = tanh(W [x_t; h_(t-1); 1]), W [hidden, in + hidden + 1].
 *
 * da_t = (1 - h_t^2) dh_t, dh_t = dy_t + Wh'da_(t+1); tda_t = (1 - h^2) tdh - 2 h th dh. The output is h itself. The
 * state before the first time is a constant: what psgd_graph_carry kept. */
#include "graph/op/recurrent.h"
#include "la/array/dispatch.h"

#include <string.h>

static recurrent_arrays arrays_of(const psgd_op_call *call)
{
    real *start = call->memory;
    int64_t size = call->output.size;
    return (recurrent_arrays){.a = Y(call),
                              .ta = TY(call),
                              .da = start,
                              .dh = start + size,
                              .tda = start + 2 * size,
                              .tdh = start + 3 * size};
}

static psgd_status rnn_check(psgd_op_call *call)
{
    PSGD_TRY(recurrent_check(call, 1));
    const int64_t *y = call->output.shape;
    call->memory_bytes = (3 * y[0] + 1) * y[1] * y[2] * (int64_t)sizeof(real);
    recurrent_reserve(call);
    call->state_size = y[1] * y[2];
    return PSGD_OK;
}

static void run_cell(const psgd_op_call *call, const recurrent *r, int64_t t, recurrent_pass pass)
{
    recurrent_arrays m = arrays_of(call);
    const la_kernels *k = la_kernel();
    for (int64_t i = 0; i < r->hidden; i++) {
        int64_t row = i * r->n + r->from, at = t * r->hidden * r->n + row;
        real *h = m.a + at;
        switch (pass) {
        case forward_pass:
            k->apply(LA_TANH, 0, r->count, h, h);
            break;
        case tangent_pass:
            k->slope(LA_TANH, 0, r->count, h, m.ta + at, false, m.ta + at);
            break;
        case backward_pass:
            k->slope(LA_TANH, 0, r->count, h, m.dh + at, false, m.da + at);
            break;
        case tangent_backward_pass:
            k->curve(LA_TANH, 0, r->count, h, m.ta + at, m.dh + at, m.tdh + row, false, m.tda + at);
            break;
        }
    }
}

static void run(psgd_op_call *call, recurrent_pass pass)
{
    recurrent_arrays arrays = arrays_of(call);
    recurrent_run(call, pass, &arrays, run_cell);
}

static psgd_status rnn_forward(psgd_op_call *call)
{
    run(call, forward_pass);
    return PSGD_OK;
}

static void rnn_tangent(psgd_op_call *call)
{
    run(call, tangent_pass);
}

static void rnn_backward(psgd_op_call *call)
{
    run(call, backward_pass);
}

static void rnn_tangent_backward(psgd_op_call *call)
{
    run(call, tangent_backward_pass);
}

static void rnn_carry(psgd_op_call *call)
{
    int64_t size = call->state_size;
    memcpy(call->state, Y(call) + call->output.size - size, (size_t)size * sizeof(real));
}

const psgd_op OP(rnn) = {OP_TABLE("rnn", rnn_check, rnn_forward, rnn_tangent, rnn_backward, rnn_tangent_backward),
                         .carry = rnn_carry};
