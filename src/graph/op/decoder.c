/* The mean over tokens of the cross entropy of softmax(W [x; 1]), product and softmax fused: the decoder of a language
 * model with tens of thousands of words.
 *
 * x is [times, features, n], W [words, features + 1], labels [times, n]; a token is one (time, sample), and N of them
 * count: those whose label is not -1. Logits and their tangents are stored once each: a block of words goes through
 * product, softmax and the products of the backward pass while it is in the cache. For block b of words, M_b the
 * largest logit of each token in it:
 *
 *     E = e^(logit - M_b)                      kept
 *     level = log sum of all e^logit           each token
 *     p = E f_b, f_b = e^(M_b - level)         recomputed where needed, without an exponential
 *     dW = D X', dX = W'D                      D = (p - onehot) dy / N, X = [x; 1]
 *     T = tW X + W tX                          kept
 *     tD = p (T - <p, T>) dy / N + (p - onehot) tdy / N
 *     tdW = tD X' + D tX', tdX = W'tD + tW'D
 *
 * Words are shared out in a fixed number of parts, so results do not depend on the number of threads. The products are
 * in decoder_products.c. */
#include "graph/op/decoder.h"
#include "la/array/dispatch.h"

#include <math.h>

static int64_t lay_out(const psgd_op_call *call, decoder *self)
{
    const psgd_operand *x = &call->input[0], *W = &call->input[1];
    *self = (decoder){.times = x->shape[0], .features = x->shape[1], .n = x->shape[2], .words = W->shape[0]};
    self->tokens = self->times * self->n;
    self->blocks = (self->words + BLOCK - 1) / BLOCK;
    self->inner = self->features + 1;
    self->panels = (self->tokens + LA_PANEL - 1) / LA_PANEL;
    self->padded = self->panels * LA_PANEL;
    self->inner_panels = (self->inner + LA_PANEL - 1) / LA_PANEL;
    int64_t plain = self->inner * self->padded, transposed = self->inner_panels * LA_PANEL * self->tokens;
    int64_t all = self->words * self->padded, each = self->blocks * self->padded;
    int64_t room = (int64_t)LANES * BLOCK * self->padded;
    const struct {
        real **to;
        int64_t count;
    } arrays[] = {{&self->X, plain},
                  {&self->tX, plain},
                  {&self->Xt, transposed},
                  {&self->tXt, transposed},
                  {&self->E, all},
                  {&self->T, all},
                  {&self->max, each},
                  {&self->sum, each},
                  {&self->spread, each},
                  {&self->level, self->padded},
                  {&self->mean, self->padded},
                  {&self->at, self->padded},
                  {&self->t_at, self->padded},
                  {&self->share, self->padded},
                  {&self->Z, (int64_t)LANES * BLOCK * LA_PANEL},
                  {&self->D, room},
                  {&self->tD, room},
                  {&self->pull, PARTS * self->features * self->padded}};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        *arrays[i].to = call->memory ? (real *)call->memory + used : NULL;
        used += (arrays[i].count + LA_PANEL - 1) / LA_PANEL * LA_PANEL;
    }
    return used * (int64_t)sizeof(real);
}

static psgd_status decoder_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 3));
    const psgd_operand *x = &call->input[0], *W = &call->input[1], *labels = &call->input[2];
    if (x->ndim != 3 || W->ndim != 2 || W->shape[1] != x->shape[1] + 1 || labels->ndim != 2 ||
        labels->shape[0] != x->shape[0] || labels->shape[1] != x->shape[2]) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "it takes [times, features, n], a matrix [words, features + 1] and labels [times, n]");
    }
    if (labels->live) return psgd__fail(PSGD_ERR_ARGUMENT, "the labels must not depend on a parameter");
    op_scalar(call);
    decoder self;
    call->memory_bytes = lay_out(call, &self);
    call->flops = 2 * (double)W->size * (double)labels->size;
    return PSGD_OK;
}

/* level from the blocks; then f_b replaces sum. */
static void find_levels(const decoder *self)
{
    int64_t N = self->padded;
    for (int64_t j = 0; j < N; j++) {
        real max = self->max[j];
        for (int64_t b = 1; b < self->blocks; b++) max = self->max[b * N + j] > max ? self->max[b * N + j] : max;
        self->level[j] = max;
    }
    real *total = self->mean, *e = self->t_at; /* not in use yet */
    for (int64_t j = 0; j < N; j++) total[j] = 0;
    for (int64_t b = 0; b < self->blocks; b++) {
        la_kernel()->exp_minus(N, self->max + b * N, self->level, e);
        for (int64_t j = 0; j < N; j++) total[j] += e[j] * self->sum[b * N + j];
    }
    for (int64_t j = 0; j < N; j++) self->level[j] += (real)log((double)total[j]);
    for (int64_t b = 0; b < self->blocks; b++)
        la_kernel()->exp_minus(N, self->max + b * N, self->level, self->sum + b * N);
}

/* share from the labels. */
static psgd_status count_labels(const decoder *self, const real *labels)
{
    int64_t counted = 0;
    for (int64_t j = 0; j < self->tokens; j++) {
        bool fits = labels[j] >= -1 && labels[j] < (real)self->words;
        if (!fits || labels[j] != (real)(int64_t)labels[j]) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "label %g of token %lld is not a whole number from 0 to %lld",
                              (double)labels[j], (long long)j, (long long)(self->words - 1));
        }
        counted += labels[j] >= 0;
    }
    if (counted == 0) return psgd__fail(PSGD_ERR_ARGUMENT, "no token counts: every label is -1");
    for (int64_t j = 0; j < self->tokens; j++) self->share[j] = labels[j] >= 0 ? (real)(1 / (double)counted) : 0;
    return PSGD_OK;
}

/* The mean over the tokens that count of x - y */
static double mean_difference(const decoder *self, const real *x, const real *y)
{
    double sum = 0, counted = 0;
    for (int64_t j = 0; j < self->tokens; j++) {
        if (self->share[j] == 0) continue;
        sum += (double)x[j] - (double)y[j];
        counted++;
    }
    return sum / counted;
}

static psgd_status decoder_forward(psgd_op_call *call)
{
    decoder self;
    lay_out(call, &self);
    PSGD_TRY(count_labels(&self, X(call, 2)));
    decoder_pack(&self, X(call, 0), 1, self.X, self.Xt);
    decoder_products(&self, call, FORWARD);
    find_levels(&self);
    Y(call)[0] = (real)mean_difference(&self, self.level, self.at);
    return PSGD_OK;
}

static void decoder_tangent(psgd_op_call *call)
{
    decoder self;
    lay_out(call, &self);
    if (call->input[0].live) decoder_pack(&self, TX(call, 0), 0, self.tX, self.tXt);
    decoder_products(&self, call, TANGENT);
    int64_t N = self.padded;
    for (int64_t j = 0; j < N; j++) self.mean[j] = 0;
    for (int64_t b = 0; b < self.blocks; b++) {
        for (int64_t j = 0; j < N; j++) self.mean[j] += self.sum[b * N + j] * self.spread[b * N + j];
    }
    TY(call)[0] = (real)mean_difference(&self, self.mean, self.t_at);
}

static void decoder_backward(psgd_op_call *call)
{
    decoder self;
    lay_out(call, &self);
    decoder_products(&self, call, BACKWARD);
    if (call->input[0].live) decoder_unpack(&self, call->add[0], DX(call, 0));
}

static void decoder_tangent_backward(psgd_op_call *call)
{
    decoder self;
    lay_out(call, &self);
    decoder_products(&self, call, TANGENT_BACKWARD);
    if (call->input[0].live) decoder_unpack(&self, call->add[0], TDX(call, 0));
}

const psgd_op OP(decoder) = {
    OP_TABLE("decoder", decoder_check, decoder_forward, decoder_tangent, decoder_backward, decoder_tangent_backward)};
