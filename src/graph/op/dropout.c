/* y = m x with a mask m of 0 and 1 / (1 - p), a function of seed, step and node; y = x in evaluation mode.
 *
 * Tangent and backward kernels reuse the mask of the forward pass. */
#include "graph/op.h"
#include "core/rng.h"
#include "la/network/network.h"
#include "la/pool.h"

#include <string.h>

enum { TILE = 4 * RNG_LANES, CHUNK = 64 * TILE };

static psgd_status dropout_check(psgd_op_call *call)
{
    double p = ((const dropout_options *)call->options)->probability;
    if (!(p >= 0 && p < 1)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the probability must be at least 0 and below 1, not %g", p);
    }
    call->memory_bytes = call->input[0].size * (int64_t)sizeof(real);
    return op_elementwise(call, 1);
}

static void draw(void *data, int64_t chunk)
{
    const psgd_op_call *call = data;
    double p = ((const dropout_options *)call->options)->probability;
    uint32_t limit = (uint32_t)(p * 4294967296.0);
    real keep = (real)(1 / (1 - p)), *mask = call->memory;
    rng_stream stream = psgd__rng_stream(call->seed, RNG_NOISE, (uint64_t)call->node, call->step);
    int64_t end = (chunk + 1) * CHUNK < call->output.size ? (chunk + 1) * CHUNK : call->output.size;
    for (int64_t from = chunk * CHUNK; from < end; from += TILE) {
        uint32_t bits[TILE];
        psgd__rng_tile(&stream, (uint64_t)(from / TILE), bits);
        for (int64_t i = from; i < end && i < from + TILE; i++) mask[i] = bits[i - from] < limit ? 0 : keep;
    }
}

static psgd_status dropout_forward(psgd_op_call *call)
{
    int64_t size = call->output.size;
    if (!call->training) {
        memcpy(Y(call), X(call, 0), (size_t)size * sizeof(real));
        return PSGD_OK;
    }
    la_parallel((size + CHUNK - 1) / CHUNK, 20 * (double)size, draw, call);
    la_multiply(size, X(call, 0), call->memory, false, Y(call));
    return PSGD_OK;
}

static void dropout_tangent(psgd_op_call *call)
{
    la_multiply(call->output.size, TX(call, 0), call->memory, false, TY(call));
}

static void dropout_backward(psgd_op_call *call)
{
    la_multiply(call->output.size, DY(call), call->memory, call->add[0], DX(call, 0));
}

static void dropout_tangent_backward(psgd_op_call *call)
{
    la_multiply(call->output.size, TDY(call), call->memory, call->add[0], TDX(call, 0));
}

const psgd_op OP(dropout) = {
    OP_TABLE("dropout", dropout_check, dropout_forward, dropout_tangent, dropout_backward, dropout_tangent_backward)};
