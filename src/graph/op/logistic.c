/* y = (1/n) sum log(1 + e^x) - t x, targets t in [0, 1]; with p = 1 / (1 + e^-x) kept from the forward,
 * dx = (p - t) dy / n, tdx = (p (1 - p) tx dy + (p - t) tdy) / n. */
#include "graph/op.h"
#include "la/network/network.h"

#include <math.h>

static psgd_status logistic_check(psgd_op_call *call)
{
    call->memory_bytes = call->input[0].size * (int64_t)sizeof(real);
    return op_loss(call, 8);
}

static psgd_status logistic_forward(psgd_op_call *call)
{
    const real *x = X(call, 0), *t = X(call, 1);
    int64_t size = call->input[0].size;
    double sum = 0;
    for (int64_t i = 0; i < size; i++) {
        if (!(t[i] >= 0 && t[i] <= 1)) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "target %g at entry %lld is not between 0 and 1", (double)t[i],
                              (long long)i);
        }
        double a = (double)x[i];
        sum += (a > 0 ? a : 0) + log1p(exp(-fabs(a))) - (double)t[i] * a;
    }
    la_apply(LA_SIGMOID, 0, size, x, call->memory);
    Y(call)[0] = (real)(sum / (double)tensor_samples(&call->input[0]));
    return PSGD_OK;
}

static void logistic_tangent(psgd_op_call *call)
{
    const real *p = call->memory, *t = X(call, 1), *tx = TX(call, 0);
    double sum = 0;
    for (int64_t i = 0; i < call->input[0].size; i++) sum += ((double)p[i] - (double)t[i]) * (double)tx[i];
    TY(call)[0] = (real)(sum / (double)tensor_samples(&call->input[0]));
}

static void logistic_backward(psgd_op_call *call)
{
    const real *p = call->memory, *t = X(call, 1);
    real *dx = DX(call, 0), c = DY(call)[0] / (real)tensor_samples(&call->input[0]);
    for (int64_t i = 0; i < call->input[0].size; i++) dx[i] = c * (p[i] - t[i]) + (call->add[0] ? dx[i] : 0);
}

static void logistic_tangent_backward(psgd_op_call *call)
{
    const real *p = call->memory, *t = X(call, 1), *tx = TX(call, 0);
    real n = (real)tensor_samples(&call->input[0]), c = DY(call)[0] / n, tc = TDY(call)[0] / n, *tdx = TDX(call, 0);
    for (int64_t i = 0; i < call->input[0].size; i++) {
        tdx[i] = c * p[i] * (1 - p[i]) * tx[i] + tc * (p[i] - t[i]) + (call->add[0] ? tdx[i] : 0);
    }
}

const psgd_op OP(logistic) = {
    .name = "logistic",
    .check = logistic_check,
    .forward = logistic_forward,
    .tangent = logistic_tangent,
    .backward = logistic_backward,
    .tangent_backward = logistic_tangent_backward,
};
