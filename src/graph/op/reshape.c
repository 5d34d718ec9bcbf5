/* The same elements in the same order with another shape. One size may be negative: it is inferred. */
#include "graph/op.h"
#include "la/network/network.h"

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

static psgd_status reshape_forward(psgd_op_call *call)
{
    la_accumulate(call->output.size, 1, X(call, 0), false, Y(call));
    return PSGD_OK;
}

static void reshape_tangent(psgd_op_call *call)
{
    la_accumulate(call->output.size, 1, TX(call, 0), false, TY(call));
}

static void reshape_backward(psgd_op_call *call)
{
    la_accumulate(call->output.size, 1, DY(call), call->add[0], DX(call, 0));
}

static void reshape_tangent_backward(psgd_op_call *call)
{
    la_accumulate(call->output.size, 1, TDY(call), call->add[0], TDX(call, 0));
}

const psgd_op OP(reshape) = {
    .name = "reshape",
    .check = reshape_check,
    .forward = reshape_forward,
    .tangent = reshape_tangent,
    .backward = reshape_backward,
    .tangent_backward = reshape_tangent_backward,
};
