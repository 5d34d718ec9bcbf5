/* y = f(x) elementwise: ReLU (leaky or not), tanh and the sigmoid, three tables over one set of kernels.
 *
 * dx = f' dy, tdx = f' tdy + f'' tx dy. f' and f'' tx are functions of y and ty, so x is not kept. At 0 ReLU has
 * the slope of its negative side. */
#include "graph/op.h"
#include "la/network/network.h"

static real leak_of(const psgd_op_call *call)
{
    return call->options ? (real)((const relu_options *)call->options)->leak : 0;
}

static psgd_status activation_check(psgd_op_call *call)
{
    double leak = call->options ? ((const relu_options *)call->options)->leak : 0;
    if (!(leak >= 0 && leak < 1)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the slope must be at least 0 and below 1, not %g", leak);
    }
    return op_elementwise(call, 1);
}

#define ACTIVATION(op, f)                                                                                              \
    static psgd_status op##_check(psgd_op_call *call)                                                                  \
    {                                                                                                                  \
        return activation_check(call);                                                                                 \
    }                                                                                                                  \
    static psgd_status op##_forward(psgd_op_call *call)                                                                \
    {                                                                                                                  \
        la_apply(f, leak_of(call), call->output.size, X(call, 0), Y(call));                                            \
        return PSGD_OK;                                                                                                \
    }                                                                                                                  \
    static void op##_tangent(psgd_op_call *call)                                                                       \
    {                                                                                                                  \
        la_slope(f, leak_of(call), call->output.size, Y(call), TX(call, 0), false, TY(call));                          \
    }                                                                                                                  \
    static void op##_backward(psgd_op_call *call)                                                                      \
    {                                                                                                                  \
        la_slope(f, leak_of(call), call->output.size, Y(call), DY(call), call->add[0], DX(call, 0));                   \
    }                                                                                                                  \
    static void op##_tangent_backward(psgd_op_call *call)                                                              \
    {                                                                                                                  \
        la_curve(f, leak_of(call), call->output.size, Y(call), TY(call), DY(call), TDY(call), call->add[0],            \
                 TDX(call, 0));                                                                                        \
    }                                                                                                                  \
    const psgd_op OP(op) = {OP_TABLE(#op, op##_check, op##_forward, op##_tangent, op##_backward, op##_tangent_backward)}

ACTIVATION(relu, LA_RELU);
ACTIVATION(tanh, LA_TANH);
ACTIVATION(sigmoid, LA_SIGMOID);
