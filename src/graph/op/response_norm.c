/* Local response normalisation with the local energy replaced by the scaled global one (paper, section 7.2):
 * y_i = a_i D^-b at each place, D = k + e sum_j a_j^2 over all channels, e = alpha size / channels.
 *
 * With q = D^-b, r = q / D, S = sum a dy, T = sum a ta, and D' = 2 e T along the tangents:
 *   dx  = q dy - 2 b e r a S
 *   ty  = q ta - 2 b e r a T
 *   tdx = q tdy - b r D' dy - 2 b e (r' a S + r ta S + r a S'), r' = -(b + 1) r D' / D, S' = sum ta dy + a tdy. */
#include "graph/op.h"
#include "la/pool.h"

#include <math.h>

enum { CHUNK = 64 };

static psgd_status response_norm_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 1));
    const psgd_operand *x = &call->input[0];
    const response_norm_options *o = call->options;
    if (x->ndim < 2) return psgd__fail(PSGD_ERR_ARGUMENT, "it takes [channels, .., n]");
    if (!(o->k > 0 && o->alpha >= 0 && o->size >= 0 && isfinite(o->k + o->alpha + o->size + o->beta))) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "k must be above 0, size and alpha at least 0; not %g, %g, %g", o->k,
                          o->size, o->alpha);
    }
    tensor_like(&call->output, x);
    call->memory_bytes = 2 * x->size / x->shape[0] * (int64_t)sizeof(real);
    call->flops = 4 * (double)x->size;
    return PSGD_OK;
}

typedef struct chunk {
    int64_t channels, places, from, count;
    real e, b, *D, *q; /* D and q at the first place of this chunk */
} chunk;

static chunk chunk_of(const psgd_op_call *call, int64_t part)
{
    const response_norm_options *o = call->options;
    int64_t channels = call->input[0].shape[0], places = call->input[0].size / channels, from = part * CHUNK;
    return (chunk){.channels = channels,
                   .places = places,
                   .from = from,
                   .count = places - from < CHUNK ? places - from : CHUNK,
                   .e = (real)(o->alpha * o->size / (double)channels),
                   .b = (real)o->beta,
                   .D = (real *)call->memory + from,
                   .q = (real *)call->memory + places + from};
}

static void run(psgd_op_call *call, void (*task)(void *, int64_t))
{
    int64_t places = call->input[0].size / call->input[0].shape[0];
    la_parallel((places + CHUNK - 1) / CHUNK, 2 * call->flops, task, call);
}

/* sum_j <- [sum_j +] sum over channels of u v at place j. */
static void dot_channels(const chunk *s, const real *u, const real *v, bool add, real *sum)
{
    for (int64_t j = 0; !add && j < s->count; j++) sum[j] = 0;
    for (int64_t i = 0; i < s->channels; i++) {
        int64_t at = i * s->places + s->from;
        for (int64_t j = 0; j < s->count; j++) sum[j] += u[at + j] * v[at + j];
    }
}

static void forward_part(void *data, int64_t part)
{
    psgd_op_call *call = data;
    chunk s = chunk_of(call, part);
    real k = (real)((const response_norm_options *)call->options)->k;
    dot_channels(&s, X(call, 0), X(call, 0), false, s.D);
    for (int64_t j = 0; j < s.count; j++) {
        s.D[j] = k + s.e * s.D[j];
        s.q[j] = (real)pow((double)s.D[j], -(double)s.b);
    }
    for (int64_t i = 0; i < s.channels; i++) {
        int64_t at = i * s.places + s.from;
        for (int64_t j = 0; j < s.count; j++) Y(call)[at + j] = X(call, 0)[at + j] * s.q[j];
    }
}

/* z <- [z +] q u - 2 b e r a <a, u>: maps tangents and, being symmetric, gradients too. */
static void apply_slope(const psgd_op_call *call, int64_t part, const real *u, bool add, real *z)
{
    chunk s = chunk_of(call, part);
    real sum[CHUNK];
    dot_channels(&s, X(call, 0), u, false, sum);
    for (int64_t j = 0; j < s.count; j++) sum[j] *= 2 * s.b * s.e * s.q[j] / s.D[j];
    for (int64_t i = 0; i < s.channels; i++) {
        int64_t at = i * s.places + s.from;
        const real *a = X(call, 0) + at;
        for (int64_t j = 0; j < s.count; j++) {
            real own = s.q[j] * u[at + j] - sum[j] * a[j];
            z[at + j] = add ? z[at + j] + own : own;
        }
    }
}

static void tangent_part(void *data, int64_t part)
{
    psgd_op_call *call = data;
    apply_slope(call, part, TX(call, 0), false, TY(call));
}

static void backward_part(void *data, int64_t part)
{
    psgd_op_call *call = data;
    apply_slope(call, part, DY(call), call->add[0], DX(call, 0));
}

static void tangent_backward_part(void *data, int64_t part)
{
    psgd_op_call *call = data;
    chunk s = chunk_of(call, part);
    real S[CHUNK], T[CHUNK], tS[CHUNK];
    dot_channels(&s, X(call, 0), DY(call), false, S);
    dot_channels(&s, X(call, 0), TX(call, 0), false, T);
    dot_channels(&s, TX(call, 0), DY(call), false, tS);
    dot_channels(&s, X(call, 0), TDY(call), true, tS);
    real c = 2 * s.b * s.e, *tdx = TDX(call, 0);
    for (int64_t i = 0; i < s.channels; i++) {
        int64_t at = i * s.places + s.from;
        const real *a = X(call, 0) + at, *ta = TX(call, 0) + at, *dy = DY(call) + at, *tdy = TDY(call) + at;
        for (int64_t j = 0; j < s.count; j++) {
            real r = s.q[j] / s.D[j], tD = 2 * s.e * T[j], tr = -(s.b + 1) * r * tD / s.D[j];
            real own = s.q[j] * tdy[j] - s.b * r * tD * dy[j] -
                       c * (tr * a[j] * S[j] + r * ta[j] * S[j] + r * a[j] * tS[j]);
            tdx[at + j] = call->add[0] ? tdx[at + j] + own : own;
        }
    }
}

static psgd_status response_norm_forward(psgd_op_call *call)
{
    run(call, forward_part);
    return PSGD_OK;
}

static void response_norm_tangent(psgd_op_call *call)
{
    run(call, tangent_part);
}

static void response_norm_backward(psgd_op_call *call)
{
    run(call, backward_part);
}

static void response_norm_tangent_backward(psgd_op_call *call)
{
    run(call, tangent_backward_part);
}

const psgd_op OP(response_norm) = {OP_TABLE("response_norm", response_norm_check, response_norm_forward,
                                            response_norm_tangent, response_norm_backward,
                                            response_norm_tangent_backward)};
