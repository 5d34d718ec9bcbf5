/* y = entries from .. from + count - 1 of x along one axis; dx is zero elsewhere. */
#include "graph/op/axis_range.h"

#include <string.h>

static psgd_status slice_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 1));
    const psgd_operand *x = &call->input[0];
    const range_options *o = call->options;
    if (o->axis < 0 || o->axis >= x->ndim || o->from < 0 || o->count < 1 || o->from > x->shape[o->axis] - o->count) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "there are no %lld entries from %lld on along axis %d",
                          (long long)o->count, (long long)o->from, o->axis);
    }
    tensor_like(&call->output, x);
    call->output.shape[o->axis] = o->count;
    return PSGD_OK;
}

static range_rows rows_of(const psgd_op_call *call)
{
    const range_options *o = call->options;
    return range_of(&call->input[0], o->axis, o->from, o->count);
}

static psgd_status slice_forward(psgd_op_call *call)
{
    range_rows r = rows_of(call);
    range_read(&r, X(call, 0), false, Y(call));
    return PSGD_OK;
}

static void slice_tangent(psgd_op_call *call)
{
    range_rows r = rows_of(call);
    range_read(&r, TX(call, 0), false, TY(call));
}

static void back(const psgd_op_call *call, const real *dy, real *dx)
{
    range_rows r = rows_of(call);
    if (!call->add[0]) memset(dx, 0, (size_t)call->input[0].size * sizeof *dx);
    range_write(&r, dy, call->add[0], dx);
}

static void slice_backward(psgd_op_call *call)
{
    back(call, DY(call), DX(call, 0));
}

static void slice_tangent_backward(psgd_op_call *call)
{
    back(call, TDY(call), TDX(call, 0));
}

const psgd_op OP(slice) = {
    OP_TABLE("slice", slice_check, slice_forward, slice_tangent, slice_backward, slice_tangent_backward)};
