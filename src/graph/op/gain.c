/* y = g x + b for each feature; W = [g, b] has one row per feature. A feature is an index into all dimensions of x but
 * the last, or into the first alone.
 *
 * dx = g dy, dg = <x, dy>, db = sum dy over the elements of the feature. */
#include "graph/op.h"
#include "la/pool.h"

static psgd_status gain_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 2));
    const psgd_operand *x = &call->input[0], *W = &call->input[1];
    if (x->ndim < 2) return psgd__fail(PSGD_ERR_ARGUMENT, "it takes [features, .., n]");
    bool fits = W->ndim == 2 && W->shape[1] == 2 && (W->shape[0] == tensor_features(x) || W->shape[0] == x->shape[0]);
    if (!fits) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "it needs a matrix of 2 columns and %lld or, for channels, %lld rows",
                          (long long)tensor_features(x), (long long)x->shape[0]);
    }
    tensor_like(&call->output, x);
    call->flops = 2 * (double)x->size;
    return PSGD_OK;
}

typedef struct feature {
    int64_t size, at; /* its elements, and where they begin */
    real gain, shift;
} feature;

static feature feature_at(const psgd_op_call *call, int64_t f)
{
    int64_t size = call->input[0].size / call->input[1].shape[0];
    return (feature){size, f * size, X(call, 1)[2 * f], X(call, 1)[2 * f + 1]};
}

static void forward_feature(void *data, int64_t f)
{
    psgd_op_call *call = data;
    feature w = feature_at(call, f);
    const real *x = X(call, 0) + w.at;
    real *y = Y(call) + w.at;
    for (int64_t j = 0; j < w.size; j++) y[j] = w.gain * x[j] + w.shift;
}

/* ty = tg x + tb + g tx */
static void tangent_feature(void *data, int64_t f)
{
    psgd_op_call *call = data;
    feature w = feature_at(call, f);
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    real gain = live_W ? TX(call, 1)[2 * f] : 0, shift = live_W ? TX(call, 1)[2 * f + 1] : 0;
    const real *x = X(call, 0) + w.at, *tx = live_x ? TX(call, 0) + w.at : NULL;
    real *ty = TY(call) + w.at;
    for (int64_t j = 0; j < w.size; j++) ty[j] = gain * x[j] + shift + (tx ? w.gain * tx[j] : 0);
}

static void add_row(const psgd_op_call *call, int64_t f, double gain, double shift, real *to)
{
    to[2 * f] = (real)(gain + (call->add[1] ? (double)to[2 * f] : 0));
    to[2 * f + 1] = (real)(shift + (call->add[1] ? (double)to[2 * f + 1] : 0));
}

static void backward_feature(void *data, int64_t f)
{
    psgd_op_call *call = data;
    feature w = feature_at(call, f);
    const real *x = X(call, 0) + w.at, *dy = DY(call) + w.at;
    real *dx = call->input[0].live ? DX(call, 0) + w.at : NULL;
    double along = 0, sum = 0;
    for (int64_t j = 0; j < w.size; j++) {
        along += (double)x[j] * (double)dy[j];
        sum += (double)dy[j];
        if (dx) dx[j] = w.gain * dy[j] + (call->add[0] ? dx[j] : 0);
    }
    if (call->input[1].live) add_row(call, f, along, sum, DX(call, 1));
}

/* tdx = tg dy + g tdy, tdg = <x, tdy> + <tx, dy>, tdb = sum tdy */
static void tangent_backward_feature(void *data, int64_t f)
{
    psgd_op_call *call = data;
    feature w = feature_at(call, f);
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    const real *x = X(call, 0) + w.at, *dy = DY(call) + w.at, *tdy = TDY(call) + w.at;
    const real *tx = live_x ? TX(call, 0) + w.at : NULL;
    real *tdx = live_x ? TDX(call, 0) + w.at : NULL, t_gain = live_W ? TX(call, 1)[2 * f] : 0;
    double along = 0, sum = 0;
    for (int64_t j = 0; j < w.size; j++) {
        along += (double)x[j] * (double)tdy[j] + (tx ? (double)tx[j] * (double)dy[j] : 0);
        sum += (double)tdy[j];
        if (tdx) tdx[j] = t_gain * dy[j] + w.gain * tdy[j] + (call->add[0] ? tdx[j] : 0);
    }
    if (live_W) add_row(call, f, along, sum, TDX(call, 1));
}

static void run(psgd_op_call *call, void (*each)(void *, int64_t))
{
    la_parallel(call->input[1].shape[0], call->flops, each, call);
}

static psgd_status gain_forward(psgd_op_call *call)
{
    run(call, forward_feature);
    return PSGD_OK;
}

static void gain_tangent(psgd_op_call *call)
{
    run(call, tangent_feature);
}

static void gain_backward(psgd_op_call *call)
{
    run(call, backward_feature);
}

static void gain_tangent_backward(psgd_op_call *call)
{
    run(call, tangent_backward_feature);
}

const psgd_op OP(gain) = {
    OP_TABLE("gain", gain_check, gain_forward, gain_tangent, gain_backward, gain_tangent_backward)};
