/* Dimension i of y is dimension order[i] of x. */
#include "graph/op.h"

static psgd_status permute_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 1));
    const psgd_operand *x = &call->input[0];
    const shape_options *o = call->options;
    bool seen[PSGD_MAX_DIMS] = {false};
    call->output.ndim = x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        int64_t from = o->shape[i];
        if (from < 0 || from >= x->ndim || seen[from]) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "the order must name each of the dimensions 0 to %d once",
                              x->ndim - 1);
        }
        seen[from] = true;
        call->output.shape[i] = x->shape[from];
    }
    return PSGD_OK;
}

/* Walks y in order and keeps the matching offset in x. back: x <- [x +] y. */
static void walk(const psgd_op_call *call, const real *from, real *to, bool back, bool add)
{
    const psgd_operand *x = &call->input[0], *y = &call->output;
    const int64_t *order = ((const shape_options *)call->options)->shape;
    int64_t stride[PSGD_MAX_DIMS], step[PSGD_MAX_DIMS], count[PSGD_MAX_DIMS] = {0}, at = 0, size = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        stride[i] = size;
        size *= x->shape[i];
    }
    for (int i = 0; i < y->ndim; i++) step[i] = stride[order[i]];
    for (int64_t i = 0; i < y->size; i++) {
        int64_t source = back ? i : at, target = back ? at : i;
        to[target] = add ? to[target] + from[source] : from[source];
        for (int m = y->ndim - 1; m >= 0; m--) {
            at += step[m];
            if (++count[m] < y->shape[m]) break;
            at -= step[m] * y->shape[m];
            count[m] = 0;
        }
    }
}

static psgd_status permute_forward(psgd_op_call *call)
{
    walk(call, X(call, 0), Y(call), false, false);
    return PSGD_OK;
}

static void permute_tangent(psgd_op_call *call)
{
    walk(call, TX(call, 0), TY(call), false, false);
}

static void permute_backward(psgd_op_call *call)
{
    walk(call, DY(call), DX(call, 0), true, call->add[0]);
}

static void permute_tangent_backward(psgd_op_call *call)
{
    walk(call, TDY(call), TDX(call, 0), true, call->add[0]);
}

const psgd_op OP(permute) = {
    OP_TABLE("permute", permute_check, permute_forward, permute_tangent, permute_backward, permute_tangent_backward)};
