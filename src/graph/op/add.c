/* y = a + b, the same shape; and reshape, which is the sum of one input: the same elements in the same order with
 * another shape, of which one size may be negative: it is inferred. */
#include "graph/op.h"
#include "la/network/network.h"

static psgd_status add_check(psgd_op_call *call)
{
    return op_elementwise(call, 2);
}

static psgd_status reshape_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 1));
    const shape_options *o = call->options;
    int64_t known = 1, size = call->input[0].size;
    int open = -1;
    if (o->ndim < 1 || o->ndim > PSGD_MAX_DIMS) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a shape has 1 to %d dimensions, not %d", PSGD_MAX_DIMS, o->ndim);
    }
    for (int i = 0; i < o->ndim; i++) {
        call->output.shape[i] = o->shape[i];
        if (o->shape[i] < 0 && open >= 0) return psgd__fail(PSGD_ERR_ARGUMENT, "only one size may be left open");
        if (o->shape[i] < 0) open = i;
        if (o->shape[i] >= 0 && !psgd__mul_fits(known, o->shape[i], &known)) known = 0;
    }
    call->output.ndim = o->ndim;
    if (open >= 0 && known > 0) call->output.shape[open] = size / known;
    if (known < 1 || (open >= 0 ? size % known != 0 : known != size)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%lld elements do not fit the new shape", (long long)size);
    }
    return PSGD_OK;
}

static psgd_status add_forward(psgd_op_call *call)
{
    for (int i = 0; i < call->input_count; i++) la_accumulate(call->output.size, 1, X(call, i), i > 0, Y(call));
    return PSGD_OK;
}

static void add_tangent(psgd_op_call *call)
{
    bool started = false;
    for (int i = 0; i < call->input_count; i++) {
        if (!call->input[i].live) continue;
        la_accumulate(call->output.size, 1, TX(call, i), started, TY(call));
        started = true;
    }
}

static void add_backward(psgd_op_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        if (call->input[i].live) la_accumulate(call->output.size, 1, DY(call), call->add[i], DX(call, i));
    }
}

static void add_tangent_backward(psgd_op_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        if (call->input[i].live) la_accumulate(call->output.size, 1, TDY(call), call->add[i], TDX(call, i));
    }
}

const psgd_op OP(add) = {OP_TABLE("add", add_check, add_forward, add_tangent, add_backward, add_tangent_backward)};

const psgd_op OP(reshape) = {
    OP_TABLE("reshape", reshape_check, add_forward, add_tangent, add_backward, add_tangent_backward)};
