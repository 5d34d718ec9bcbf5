/* Losses of predictions p and constant targets t, n samples:
 *
 *     squared   y = (1 / 2n) sum (x - t)^2                  p = x
 *     logistic  y = (1/n) sum log(1 + e^x) - t x, t in [0, 1]  p = 1 / (1 + e^-x), kept from the forward
 *
 * dx = (p - t) dy / n, tdx = (p' tx dy + (p - t) tdy) / n with p' = 1 or p (1 - p). */
#include "graph/op.h"
#include "la/network/network.h"

#include <math.h>

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

static bool is_logistic(const psgd_op_call *call)
{
    return call->memory_bytes > 0;
}

static const real *predictions(const psgd_op_call *call)
{
    return is_logistic(call) ? call->memory : X(call, 0);
}

static void loss_tangent(psgd_op_call *call)
{
    const real *p = predictions(call), *t = X(call, 1), *tx = TX(call, 0);
    double sum = 0;
    for (int64_t i = 0; i < call->input[0].size; i++) sum += ((double)p[i] - (double)t[i]) * (double)tx[i];
    TY(call)[0] = (real)(sum / (double)tensor_samples(&call->input[0]));
}

static void loss_backward(psgd_op_call *call)
{
    const real *p = predictions(call), *t = X(call, 1);
    real *dx = DX(call, 0), c = DY(call)[0] / (real)tensor_samples(&call->input[0]);
    for (int64_t i = 0; i < call->input[0].size; i++) dx[i] = c * (p[i] - t[i]) + (call->add[0] ? dx[i] : 0);
}

static void loss_tangent_backward(psgd_op_call *call)
{
    const real *p = predictions(call), *t = X(call, 1), *tx = TX(call, 0);
    real n = (real)tensor_samples(&call->input[0]), c = DY(call)[0] / n, tc = TDY(call)[0] / n, *tdx = TDX(call, 0);
    bool logistic = is_logistic(call);
    for (int64_t i = 0; i < call->input[0].size; i++) {
        real slope = logistic ? c * p[i] * (1 - p[i]) : c;
        tdx[i] = slope * tx[i] + tc * (p[i] - t[i]) + (call->add[0] ? tdx[i] : 0);
    }
}

const psgd_op OP(squared) = {
    OP_TABLE("squared", squared_check, squared_forward, loss_tangent, loss_backward, loss_tangent_backward)};
const psgd_op OP(logistic) = {
    OP_TABLE("logistic", logistic_check, logistic_forward, loss_tangent, loss_backward, loss_tangent_backward)};
