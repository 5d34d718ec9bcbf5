/* y = (c / 2) sum x^2; dx = c x dy, tdx = c (tx dy + x tdy). */
#include "graph/op.h"
#include "la/la.h"
#include "la/network/network.h"

#include <math.h>

static psgd_status l2_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 1));
    double c = ((const l2_options *)call->options)->coefficient;
    if (!isfinite(c) || c < 0) return psgd__fail(PSGD_ERR_ARGUMENT, "the coefficient must be at least 0, not %g", c);
    op_scalar(call);
    call->flops = 2 * (double)call->input[0].size;
    return PSGD_OK;
}

static double coefficient(const psgd_op_call *call)
{
    return ((const l2_options *)call->options)->coefficient;
}

static psgd_status l2_forward(psgd_op_call *call)
{
    Y(call)[0] = (real)(coefficient(call) / 2 * la_dot(call->input[0].size, X(call, 0), X(call, 0)));
    return PSGD_OK;
}

static void l2_tangent(psgd_op_call *call)
{
    TY(call)[0] = (real)(coefficient(call) * la_dot(call->input[0].size, X(call, 0), TX(call, 0)));
}

static void l2_backward(psgd_op_call *call)
{
    real c = (real)coefficient(call) * DY(call)[0];
    la_accumulate(call->input[0].size, c, X(call, 0), call->add[0], DX(call, 0));
}

static void l2_tangent_backward(psgd_op_call *call)
{
    real c = (real)coefficient(call);
    la_accumulate(call->input[0].size, c * DY(call)[0], TX(call, 0), call->add[0], TDX(call, 0));
    if (TDY(call)[0] != 0) la_accumulate(call->input[0].size, c * TDY(call)[0], X(call, 0), true, TDX(call, 0));
}

const psgd_op OP(l2) = {OP_TABLE("l2", l2_check, l2_forward, l2_tangent, l2_backward, l2_tangent_backward)};
