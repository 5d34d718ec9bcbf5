/* Shared by the files of ops. */
#ifndef PSGD_GRAPH_OP_H
#define PSGD_GRAPH_OP_H

#include "graph/ops.h"

#define OP(name) PSGD_TYPED(psgd__op_##name)

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

/* The shape of a loss. */
static inline void op_scalar(psgd_op_call *call)
{
    call->output.ndim = 1;
    call->output.shape[0] = 1;
}

#endif
