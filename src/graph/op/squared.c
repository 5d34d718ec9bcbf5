/* y = (1 / 2n) sum (x - t)^2; dx = (x - t) dy / n, tdx = (tx dy + (x - t) tdy) / n. The target t is a constant. */
#include "graph/op.h"

static psgd_status squared_check(psgd_op_call *call)
{
    return op_loss(call, 3);
}

static psgd_status squared_forward(psgd_op_call *call)
{
    const real *x = X(call, 0), *t = X(call, 1);
    double sum = 0;
    for (int64_t i = 0; i < call->input[0].size; i++)
        sum += ((double)x[i] - (double)t[i]) * ((double)x[i] - (double)t[i]);
    Y(call)[0] = (real)(sum / (2 * (double)tensor_samples(&call->input[0])));
    return PSGD_OK;
}

static void squared_tangent(psgd_op_call *call)
{
    const real *x = X(call, 0), *t = X(call, 1), *tx = TX(call, 0);
    double sum = 0;
    for (int64_t i = 0; i < call->input[0].size; i++) sum += ((double)x[i] - (double)t[i]) * (double)tx[i];
    TY(call)[0] = (real)(sum / (double)tensor_samples(&call->input[0]));
}

static void squared_backward(psgd_op_call *call)
{
    const real *x = X(call, 0), *t = X(call, 1);
    real *dx = DX(call, 0), c = DY(call)[0] / (real)tensor_samples(&call->input[0]);
    for (int64_t i = 0; i < call->input[0].size; i++) dx[i] = c * (x[i] - t[i]) + (call->add[0] ? dx[i] : 0);
}

static void squared_tangent_backward(psgd_op_call *call)
{
    const real *x = X(call, 0), *t = X(call, 1), *tx = TX(call, 0);
    real n = (real)tensor_samples(&call->input[0]), c = DY(call)[0] / n, tc = TDY(call)[0] / n, *tdx = TDX(call, 0);
    for (int64_t i = 0; i < call->input[0].size; i++) {
        tdx[i] = c * tx[i] + tc * (x[i] - t[i]) + (call->add[0] ? tdx[i] : 0);
    }
}

const psgd_op OP(squared) = {
    .name = "squared",
    .check = squared_check,
    .forward = squared_forward,
    .tangent = squared_tangent,
    .backward = squared_backward,
    .tangent_backward = squared_tangent_backward,
};
