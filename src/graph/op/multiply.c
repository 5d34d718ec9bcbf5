/* y = a b elementwise, the same shape; da = b dy, tda = tb dy + b tdy. */
#include "graph/op.h"
#include "la/network/network.h"

static psgd_status multiply_check(psgd_op_call *call)
{
    return op_elementwise(call, 2);
}

static psgd_status multiply_forward(psgd_op_call *call)
{
    la_multiply(call->output.size, X(call, 0), X(call, 1), false, Y(call));
    return PSGD_OK;
}

static void multiply_tangent(psgd_op_call *call)
{
    bool started = false;
    for (int i = 0; i < 2; i++) {
        if (!call->input[i].live) continue;
        la_multiply(call->output.size, TX(call, i), X(call, 1 - i), started, TY(call));
        started = true;
    }
}

static void multiply_backward(psgd_op_call *call)
{
    for (int i = 0; i < 2; i++) {
        if (call->input[i].live) la_multiply(call->output.size, DY(call), X(call, 1 - i), call->add[i], DX(call, i));
    }
}

static void multiply_tangent_backward(psgd_op_call *call)
{
    for (int i = 0; i < 2; i++) {
        if (!call->input[i].live) continue;
        la_multiply(call->output.size, TDY(call), X(call, 1 - i), call->add[i], TDX(call, i));
        if (call->input[1 - i].live) la_multiply(call->output.size, DY(call), TX(call, 1 - i), true, TDX(call, i));
    }
}

const psgd_op OP(multiply) = {OP_TABLE("multiply", multiply_check, multiply_forward, multiply_tangent,
                                       multiply_backward, multiply_tangent_backward)};
