/* Shared by the files of ops. */
#ifndef PSGD_GRAPH_OP_H
#define PSGD_GRAPH_OP_H

#include "graph/ops.h"

#define OP(name) PSGD_TYPED(psgd__op_##name)

/* The table of an op, but for what is optional. */
#define OP_TABLE(n, c, f, t, b, tb)                                                                                    \
    .name = (n), .check = (c), .forward = (f), .tangent = (t), .backward = (b), .tangent_backward = (tb)

/* The arrays of a call as real: input i, the output. */
#define X(call, i)   ((const real *)(call)->input[i].value)
#define TX(call, i)  ((const real *)(call)->input[i].tangent)
#define DX(call, i)  ((real *)(call)->input[i].gradient)
#define TDX(call, i) ((real *)(call)->input[i].tangent_gradient)
#define Y(call)      ((real *)(call)->output.value)
#define TY(call)     ((real *)(call)->output.tangent)
#define DY(call)     ((const real *)(call)->output.gradient)
#define TDY(call)    ((const real *)(call)->output.tangent_gradient)

static inline psgd_status op_inputs(const psgd_op_call *call, int count)
{
    if (call->input_count == count) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "it takes %d inputs, not %d", count, call->input_count);
}

/* count inputs of one shape, which is that of the output. */
static inline psgd_status op_elementwise(psgd_op_call *call, int count)
{
    PSGD_TRY(op_inputs(call, count));
    for (int i = 1; i < count; i++) {
        if (!tensor_same_shape(&call->input[0], &call->input[i])) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "both must have the same shape");
        }
    }
    tensor_like(&call->output, &call->input[0]);
    call->flops = (double)call->input[0].size;
    return PSGD_OK;
}

/* The shape of a loss. */
static inline void op_scalar(psgd_op_call *call)
{
    call->output.ndim = 1;
    call->output.shape[0] = 1;
}

/* The loss of predictions and targets of their shape. */
static inline psgd_status op_loss(psgd_op_call *call, double flops_each)
{
    PSGD_TRY(op_inputs(call, 2));
    if (!tensor_same_shape(&call->input[0], &call->input[1])) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the targets must have the shape of what is compared with them");
    }
    if (call->input[1].live) return psgd__fail(PSGD_ERR_ARGUMENT, "the targets must not depend on a parameter");
    op_scalar(call);
    call->flops = flops_each * (double)call->input[0].size;
    return PSGD_OK;
}

#endif
