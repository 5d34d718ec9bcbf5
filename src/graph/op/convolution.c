/* y = W * x: a window of [kh, kw] over x [c, h, w, n], W [out, kh kw c + 1].
 *
 * A convolution is an affine map of each window, and so are its derivatives: dx = W' * dy, dW = dy x'. */
#include "graph/op.h"
#include "la/network/conv.h"

static la_conv shape_of(const psgd_op_call *call)
{
    const convolution_options *o = call->options;
    const int64_t *x = call->input[0].shape;
    return (la_conv){.c = x[0],
                     .h = x[1],
                     .w = x[2],
                     .n = x[3],
                     .out = call->input[1].shape[0],
                     .kh = o->kh,
                     .kw = o->kw,
                     .stride = o->stride,
                     .padding = o->padding,
                     .oh = (x[1] + 2 * o->padding - o->kh) / o->stride + 1,
                     .ow = (x[2] + 2 * o->padding - o->kw) / o->stride + 1};
}

static psgd_status convolution_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 2));
    const psgd_operand *x = &call->input[0], *W = &call->input[1];
    const convolution_options *o = call->options;
    if (x->ndim != 4) return psgd__fail(PSGD_ERR_ARGUMENT, "it takes [channels, height, width, n]");
    if (o->kh < 1 || o->kw < 1 || o->stride < 1 || o->padding < 0 || o->padding >= o->kh || o->padding >= o->kw) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "the window %lld x %lld, stride %lld and padding %lld must be at least 1, "
                          "1 and 0, and the padding smaller than the window",
                          (long long)o->kh, (long long)o->kw, (long long)o->stride, (long long)o->padding);
    }
    int64_t columns = o->kh * o->kw * x->shape[0] + 1;
    if (W->ndim != 2 || W->shape[1] != columns) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "a window %lld x %lld of %lld channels needs a matrix of %lld columns, the "
                          "last for the bias",
                          (long long)o->kh, (long long)o->kw, (long long)x->shape[0], (long long)columns);
    }
    int64_t height = x->shape[1] + 2 * o->padding, width = x->shape[2] + 2 * o->padding;
    if (height < o->kh || width < o->kw) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the window %lld x %lld is larger than the padded image %lld x %lld",
                          (long long)o->kh, (long long)o->kw, (long long)height, (long long)width);
    }
    la_conv s = shape_of(call);
    call->output.ndim = 4;
    call->output.shape[0] = s.out;
    call->output.shape[1] = s.oh;
    call->output.shape[2] = s.ow;
    call->output.shape[3] = s.n;
    call->memory_bytes = la_conv_work(&s) * (int64_t)sizeof(real);
    call->flops = 2 * (double)W->size * (double)s.oh * (double)s.ow * (double)s.n;
    return PSGD_OK;
}

static psgd_status convolution_forward(psgd_op_call *call)
{
    la_conv s = shape_of(call);
    la_conv_forward(&s, 1, &(la_conv_term){.W = X(call, 1), .x = X(call, 0)}, true, Y(call), call->memory);
    return PSGD_OK;
}

/* ty = tW * [x; 1] + W * tx */
static void convolution_tangent(psgd_op_call *call)
{
    la_conv s = shape_of(call);
    la_conv_term term[2];
    int count = 0;
    bool live_W = call->input[1].live;
    if (live_W) term[count++] = (la_conv_term){.W = TX(call, 1), .x = X(call, 0)};
    if (call->input[0].live) term[count++] = (la_conv_term){.W = X(call, 1), .x = TX(call, 0)};
    la_conv_forward(&s, count, term, live_W, TY(call), call->memory);
}

static void convolution_backward(psgd_op_call *call)
{
    la_conv s = shape_of(call);
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    la_conv_back(&s, 1, &(la_conv_term){.W = X(call, 1), .x = X(call, 0), .dy = DY(call)}, call->add[0],
                 live_x ? DX(call, 0) : NULL, call->add[1], live_W ? DX(call, 1) : NULL, call->memory);
}

/* tdx = W' * tdy + tW' * dy, tdW = tdy [x; 1]' + dy [tx; 0]'. The second terms need the tangent of the other input. */
static void convolution_tangent_backward(psgd_op_call *call)
{
    la_conv s = shape_of(call);
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    la_conv_term term[2] = {
        {.W = X(call, 1), .x = X(call, 0), .dy = TDY(call)},
        {.W = TX(call, 1), .x = TX(call, 0), .dy = DY(call)},
    };
    la_conv_back(&s, live_x && live_W ? 2 : 1, term, call->add[0], live_x ? TDX(call, 0) : NULL, call->add[1],
                 live_W ? TDX(call, 1) : NULL, call->memory);
}

const psgd_op OP(convolution) = {OP_TABLE("convolution", convolution_check, convolution_forward, convolution_tangent,
                                          convolution_backward, convolution_tangent_backward)};
