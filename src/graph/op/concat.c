/* y = the inputs one after the other along one axis; all other dimensions agree. */
#include "graph/op/axis_range.h"

#include <string.h>

static psgd_status concat_check(psgd_op_call *call)
{
    const psgd_operand *first = &call->input[0];
    int axis = ((const range_options *)call->options)->axis;
    if (axis < 0 || axis >= first->ndim) return psgd__fail(PSGD_ERR_ARGUMENT, "there is no axis %d", axis);
    tensor_like(&call->output, first);
    for (int i = 1; i < call->input_count; i++) {
        psgd_operand part = call->input[i];
        if (part.ndim == first->ndim) part.shape[axis] = first->shape[axis];
        if (!tensor_same_shape(&part, first)) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "shapes may differ along axis %d only", axis);
        }
        call->output.shape[axis] += call->input[i].shape[axis];
    }
    return PSGD_OK;
}

/* Where input i lies in the output. */
static range_rows rows_of(const psgd_op_call *call, int i)
{
    int axis = ((const range_options *)call->options)->axis;
    int64_t from = 0;
    for (int k = 0; k < i; k++) from += call->input[k].shape[axis];
    return range_of(&call->output, axis, from, call->input[i].shape[axis]);
}

static psgd_status concat_forward(psgd_op_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        range_rows r = rows_of(call, i);
        range_write(&r, X(call, i), false, Y(call));
    }
    return PSGD_OK;
}

static void concat_tangent(psgd_op_call *call)
{
    memset(TY(call), 0, (size_t)call->output.size * sizeof(real));
    for (int i = 0; i < call->input_count; i++) {
        range_rows r = rows_of(call, i);
        if (call->input[i].live) range_write(&r, TX(call, i), false, TY(call));
    }
}

static void concat_backward(psgd_op_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        range_rows r = rows_of(call, i);
        if (call->input[i].live) range_read(&r, DY(call), call->add[i], DX(call, i));
    }
}

static void concat_tangent_backward(psgd_op_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        range_rows r = rows_of(call, i);
        if (call->input[i].live) range_read(&r, TDY(call), call->add[i], TDX(call, i));
    }
}

const psgd_op OP(concat) = {
    OP_TABLE("concat", concat_check, concat_forward, concat_tangent, concat_backward, concat_tangent_backward)};
