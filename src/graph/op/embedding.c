/* y[t, :, j] = row tokens[t, j] of W without its last column; dW adds dy to those rows.
 *
 * W may be shared with another op, as in a language model whose decoder is tied to its embedding. */
#include "graph/op.h"

#include <string.h>

static psgd_status embedding_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 2));
    const psgd_operand *tokens = &call->input[0], *W = &call->input[1];
    if (tokens->ndim != 2 || W->ndim != 2 || W->shape[1] < 2) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "it takes tokens [times, n] and a matrix [words, features + 1]");
    }
    if (tokens->live) return psgd__fail(PSGD_ERR_ARGUMENT, "the tokens must not depend on a parameter");
    call->output.ndim = 3;
    call->output.shape[0] = tokens->shape[0];
    call->output.shape[1] = W->shape[1] - 1;
    call->output.shape[2] = tokens->shape[1];
    return PSGD_OK;
}

/* y from the rows of W; word i is row place[i], or row i where place is NULL. */
static void look_up(const psgd_op_call *call, const real *W, const int64_t *place, real *y)
{
    int64_t times = call->output.shape[0], features = call->output.shape[1], n = call->output.shape[2];
    const real *tokens = X(call, 0);
    for (int64_t t = 0; t < times; t++) {
        for (int64_t j = 0; j < n; j++) {
            int64_t word = (int64_t)tokens[t * n + j];
            const real *row = W + (place ? place[word] : word) * (features + 1);
            real *to = y + t * features * n + j;
            for (int64_t i = 0; i < features; i++) to[i * n] = row[i];
        }
    }
}

static psgd_status embedding_forward(psgd_op_call *call)
{
    const psgd_operand *tokens = &call->input[0];
    int64_t words = call->input[1].shape[0];
    for (int64_t i = 0; i < tokens->size; i++) {
        real token = X(call, 0)[i];
        if (token >= 0 && token < (real)words && token == (real)(int64_t)token) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT, "token %g at entry %lld is not a whole number from 0 to %lld",
                          (double)token, (long long)i, (long long)(words - 1));
    }
    look_up(call, X(call, 1), NULL, Y(call));
    return PSGD_OK;
}

static void embedding_tangent(psgd_op_call *call)
{
    look_up(call, TX(call, 1), call->input[1].place, TY(call));
}

static void add_rows(const psgd_op_call *call, const real *dy, real *dW)
{
    int64_t times = call->output.shape[0], features = call->output.shape[1], n = call->output.shape[2];
    const real *tokens = X(call, 0);
    const int64_t *place = call->input[1].place;
    if (!call->add[1]) memset(dW, 0, (size_t)call->input[1].size * sizeof *dW);
    for (int64_t t = 0; t < times; t++) {
        for (int64_t j = 0; j < n; j++) {
            int64_t word = (int64_t)tokens[t * n + j];
            real *row = dW + (place ? place[word] : word) * (features + 1);
            const real *from = dy + t * features * n + j;
            for (int64_t i = 0; i < features; i++) row[i] += from[i * n];
        }
    }
}

static void embedding_backward(psgd_op_call *call)
{
    add_rows(call, DY(call), DX(call, 1));
}

static void embedding_tangent_backward(psgd_op_call *call)
{
    add_rows(call, TDY(call), TDX(call, 1));
}

const psgd_op OP(embedding) = {OP_TABLE("embedding", embedding_check, embedding_forward, embedding_tangent,
                                        embedding_backward, embedding_tangent_backward)};
