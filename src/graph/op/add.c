/* y = a + b, the same shape. */
#include "graph/op.h"
#include "la/network/network.h"

static psgd_status add_check(psgd_op_call *call)
{
    return op_elementwise(call, 2);
}

static psgd_status add_forward(psgd_op_call *call)
{
    la_accumulate(call->output.size, 1, X(call, 0), false, Y(call));
    la_accumulate(call->output.size, 1, X(call, 1), true, Y(call));
    return PSGD_OK;
}

static void add_tangent(psgd_op_call *call)
{
    bool started = false;
    for (int i = 0; i < 2; i++) {
        if (!call->input[i].live) continue;
        la_accumulate(call->output.size, 1, TX(call, i), started, TY(call));
        started = true;
    }
}

static void add_backward(psgd_op_call *call)
{
    for (int i = 0; i < 2; i++) {
        if (call->input[i].live) la_accumulate(call->output.size, 1, DY(call), call->add[i], DX(call, i));
    }
}

static void add_tangent_backward(psgd_op_call *call)
{
    for (int i = 0; i < 2; i++) {
        if (call->input[i].live) la_accumulate(call->output.size, 1, TDY(call), call->add[i], TDX(call, i));
    }
}

const psgd_op OP(add) = {
    .name = "add",
    .check = add_check,
    .forward = add_forward,
    .tangent = add_tangent,
    .backward = add_backward,
    .tangent_backward = add_tangent_backward,
};
