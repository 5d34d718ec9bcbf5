/* y = (x - m) / s for each feature, m and s^2 - epsilon the mean and variance over the batch.
 *
 * dx = (dy - <dy> - y <y dy>) / s with <.> the mean over the batch; ty is the same map of tx, which is symmetric;
 * ts = <y tx>, tdx = (tdy - <tdy> - ty <y dy> - y <y tdy + ty dy> - ts dx) / s.
 * psgd_graph_carry adds the batch to moving averages of m and s^2, which replace them in evaluation mode. */
#include "graph/op.h"
#include "la/pool.h"

#include <math.h>

#define AVERAGE_DECAY 0.99 /* paper, section 7.2 */

static psgd_status batch_norm_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 1));
    const psgd_operand *x = &call->input[0];
    const batch_norm_options *o = call->options;
    if (x->ndim < 2) return psgd__fail(PSGD_ERR_ARGUMENT, "it takes [features, .., n]");
    if (!(o->epsilon > 0)) return psgd__fail(PSGD_ERR_ARGUMENT, "epsilon must be above 0, not %g", o->epsilon);
    int64_t features = o->per_channel ? x->shape[0] : tensor_features(x);
    tensor_like(&call->output, x);
    call->memory_bytes = 2 * features * (int64_t)sizeof(real);
    call->state_size = 2 * features + 1; /* averages of m, of s^2, and their total weight so far */
    call->flops = 6 * (double)x->size;
    return PSGD_OK;
}

typedef struct batch {
    int64_t features, size; /* elements per feature */
    real *mean, *deviation, *average, *variance, *weight;
} batch;

static batch read_call(const psgd_op_call *call)
{
    const psgd_operand *x = &call->input[0];
    int64_t features = ((const batch_norm_options *)call->options)->per_channel ? x->shape[0] : tensor_features(x);
    real *memory = call->memory, *state = call->state;
    return (batch){.features = features,
                   .size = x->size / features,
                   .mean = memory,
                   .deviation = memory + features,
                   .average = state,
                   .variance = state + features,
                   .weight = state + 2 * features};
}

static double mean_of(int64_t n, const real *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    return sum / (double)n;
}

static double mean_product(int64_t n, const real *x, const real *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum / (double)n;
}

static void forward_feature(void *data, int64_t f)
{
    psgd_op_call *call = data;
    batch b = read_call(call);
    const real *x = X(call, 0) + f * b.size;
    real *y = Y(call) + f * b.size;
    double mean = mean_of(b.size, x), variance = 0, epsilon = ((const batch_norm_options *)call->options)->epsilon;
    if (!call->training && *b.weight > 0) {
        mean = (double)b.average[f] / (double)*b.weight;
        variance = (double)b.variance[f] / (double)*b.weight;
    } else {
        for (int64_t j = 0; j < b.size; j++) variance += ((double)x[j] - mean) * ((double)x[j] - mean);
        variance /= (double)b.size;
    }
    real m = (real)mean, s = (real)sqrt(variance + epsilon);
    b.mean[f] = m;
    b.deviation[f] = s;
    for (int64_t j = 0; j < b.size; j++) y[j] = (x[j] - m) / s;
}

/* z <- [z +] (u - <u> - y <y u>) / s */
static void apply_slope(const psgd_op_call *call, int64_t f, const real *u, bool add, real *z)
{
    batch b = read_call(call);
    const real *y = Y(call) + f * b.size;
    u += f * b.size;
    z += f * b.size;
    real mean = (real)mean_of(b.size, u), along = (real)mean_product(b.size, y, u), s = b.deviation[f];
    for (int64_t j = 0; j < b.size; j++) {
        real own = (u[j] - mean - y[j] * along) / s;
        z[j] = add ? z[j] + own : own;
    }
}

static void tangent_feature(void *data, int64_t f)
{
    psgd_op_call *call = data;
    apply_slope(call, f, TX(call, 0), false, TY(call));
}

static void backward_feature(void *data, int64_t f)
{
    psgd_op_call *call = data;
    apply_slope(call, f, DY(call), call->add[0], DX(call, 0));
}

static void tangent_backward_feature(void *data, int64_t f)
{
    psgd_op_call *call = data;
    batch b = read_call(call);
    int64_t n = b.size, at = f * n;
    const real *y = Y(call) + at, *ty = TY(call) + at, *dy = DY(call) + at, *tdy = TDY(call) + at;
    real *tdx = TDX(call, 0) + at, s = b.deviation[f], ts = (real)mean_product(n, y, TX(call, 0) + at);
    real mean = (real)mean_of(n, dy), along = (real)mean_product(n, y, dy), t_mean = (real)mean_of(n, tdy);
    real t_along = (real)(mean_product(n, y, tdy) + mean_product(n, ty, dy));
    for (int64_t j = 0; j < n; j++) {
        real dx = (dy[j] - mean - y[j] * along) / s;
        real own = (tdy[j] - t_mean - ty[j] * along - y[j] * t_along - ts * dx) / s;
        tdx[j] = call->add[0] ? tdx[j] + own : own;
    }
}

static void run(psgd_op_call *call, void (*each)(void *, int64_t))
{
    la_parallel(read_call(call).features, 2 * call->flops, each, call);
}

static psgd_status batch_norm_forward(psgd_op_call *call)
{
    run(call, forward_feature);
    return PSGD_OK;
}

static void batch_norm_tangent(psgd_op_call *call)
{
    run(call, tangent_feature);
}

static void batch_norm_backward(psgd_op_call *call)
{
    run(call, backward_feature);
}

static void batch_norm_tangent_backward(psgd_op_call *call)
{
    run(call, tangent_backward_feature);
}

static void batch_norm_carry(psgd_op_call *call)
{
    const real keep = (real)AVERAGE_DECAY, take = 1 - keep;
    if (!call->training) return;
    batch b = read_call(call);
    double epsilon = ((const batch_norm_options *)call->options)->epsilon;
    for (int64_t f = 0; f < b.features; f++) {
        real variance = (real)((double)b.deviation[f] * (double)b.deviation[f] - epsilon);
        b.average[f] = keep * b.average[f] + take * b.mean[f];
        b.variance[f] = keep * b.variance[f] + take * (variance > 0 ? variance : 0);
    }
    *b.weight = keep * *b.weight + take;
}

const psgd_op OP(batch_norm) = {OP_TABLE("batch_norm", batch_norm_check, batch_norm_forward, batch_norm_tangent,
                                         batch_norm_backward, batch_norm_tangent_backward),
                                .carry = batch_norm_carry};
