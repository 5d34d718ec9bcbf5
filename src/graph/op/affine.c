/* y = W [x; 1]; the features are all dimensions of x but the last.
 *
 * dx = W'dy, dW = dy [x; 1]'. Two products a gradient, four more with Hv. */
#include "graph/op.h"
#include "la/network/network.h"

static psgd_status affine_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 2));
    const psgd_operand *x = &call->input[0], *W = &call->input[1];
    int64_t in = tensor_features(x);
    if (W->ndim != 2 || W->shape[1] != in + 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%lld features need a matrix of %lld columns, the last for the bias",
                          (long long)in, (long long)(in + 1));
    }
    call->output.ndim = 2;
    call->output.shape[0] = W->shape[0];
    call->output.shape[1] = tensor_samples(x);
    call->flops = 2 * (double)W->size * (double)tensor_samples(x);
    return PSGD_OK;
}

typedef struct sizes {
    int64_t out, in, n, ld;
} sizes;

static sizes sizes_of(const psgd_op_call *call)
{
    int64_t in = tensor_features(&call->input[0]);
    return (sizes){call->output.shape[0], in, call->output.shape[1], in + 1};
}

static psgd_status affine_forward(psgd_op_call *call)
{
    sizes s = sizes_of(call);
    la_spread_bias(s.out, s.n, X(call, 1) + s.in, s.ld, false, Y(call));
    la_product(s.out, s.in, s.n, X(call, 1), s.ld, false, X(call, 0), true, Y(call));
    return PSGD_OK;
}

/* ty = tW [x; 1] + W tx */
static void affine_tangent(psgd_op_call *call)
{
    sizes s = sizes_of(call);
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    if (live_W) {
        la_spread_bias(s.out, s.n, TX(call, 1) + s.in, s.ld, false, TY(call));
        la_product(s.out, s.in, s.n, TX(call, 1), s.ld, false, X(call, 0), true, TY(call));
    }
    if (live_x) la_product(s.out, s.in, s.n, X(call, 1), s.ld, false, TX(call, 0), live_W, TY(call));
}

static void affine_backward(psgd_op_call *call)
{
    sizes s = sizes_of(call);
    if (call->input[0].live) {
        la_product(s.out, s.in, s.n, X(call, 1), s.ld, true, DY(call), call->add[0], DX(call, 0));
    }
    if (call->input[1].live) {
        la_outer(s.out, s.in, s.n, DY(call), X(call, 0), call->add[1], DX(call, 1), s.ld);
        la_row_sums(s.out, s.n, DY(call), call->add[1], DX(call, 1) + s.in, s.ld);
    }
}

/* tdx = tW'dy + W'tdy, tdW = tdy [x; 1]' + dy [tx; 0]' */
static void affine_tangent_backward(psgd_op_call *call)
{
    sizes s = sizes_of(call);
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    if (live_x) {
        la_product(s.out, s.in, s.n, X(call, 1), s.ld, true, TDY(call), call->add[0], TDX(call, 0));
        if (live_W) la_product(s.out, s.in, s.n, TX(call, 1), s.ld, true, DY(call), true, TDX(call, 0));
    }
    if (live_W) {
        la_outer(s.out, s.in, s.n, TDY(call), X(call, 0), call->add[1], TDX(call, 1), s.ld);
        if (live_x) la_outer(s.out, s.in, s.n, DY(call), TX(call, 0), true, TDX(call, 1), s.ld);
        la_row_sums(s.out, s.n, TDY(call), call->add[1], TDX(call, 1) + s.in, s.ld);
    }
}

const psgd_op OP(affine) = {
    OP_TABLE("affine", affine_check, affine_forward, affine_tangent, affine_backward, affine_tangent_backward)};
