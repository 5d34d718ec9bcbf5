/* The mean over tokens of the cross entropy of softmax(W [x; 1]), product and softmax in one: the decoder of a language
 * model, with tens of thousands of words.
 *
 * x is [times, features, n], W [words, features + 1], labels [times, n]; a token is one (time, sample), and N of them
 * count: those whose label is not -1. The logits stand in memory once, and their tangents once: blocks of words go
 * through product, softmax and the products of the way back while they are in the cache. For block b of words, M_b the
 * largest logit of each token in it:
 *
 *     E = e^(logit - M_b)                      kept
 *     level = log sum of all e^logit           each token
 *     p = E f_b, f_b = e^(M_b - level)         made again where it is needed, without an exponential
 *     dW = D X', dX = W'D                      D = (p - onehot) dy / N, X = [x; 1]
 *     T = tW X + W tX                          kept
 *     tD = p (T - <p, T>) dy / N + (p - onehot) tdy / N
 *     tdW = tD X' + D tX', tdX = W'tD + tW'D
 *
 * Words are shared out in a fixed number of parts, so results do not depend on the number of threads. */
#include "graph/op.h"
#include "la/blas.h"
#include "la/dispatch.h"
#include "la/parallel.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256, PARTS = 8 };

/* Sizes, and the op's memory. */
typedef struct decoder {
    int64_t times, features, n, words, tokens, blocks; /* tokens = times n */
    real *X, *tX;                                      /* [features + 1, tokens], the last row 1 or 0 */
    real *E, *T;                                       /* [words, tokens] */
    real *most, *sum;                                  /* [blocks, tokens]; sum is f_b from the end of forward on */
    real *spread;                                      /* [blocks, tokens] sum over a block of E T */
    real *level, *mean, *at, *t_at; /* [tokens]; mean is <p, T>, at and t_at are those of the labels */
    real *share;                    /* [tokens] 1 / N, or 0 where a token does not count */
    real *D, *tD;                   /* [PARTS, BLOCK, tokens] */
    real *factor;                   /* [PARTS, 2, tokens] of a block: what makes D and the second term of tD of E */
    real *pull;                     /* [PARTS, features + 1, tokens] parts of dX or tdX */
} decoder;

static int64_t lay_out(const psgd_op_call *call, decoder *self)
{
    const psgd_operand *x = &call->input[0], *W = &call->input[1];
    *self = (decoder){.times = x->shape[0], .features = x->shape[1], .n = x->shape[2], .words = W->shape[0]};
    self->tokens = self->times * self->n;
    self->blocks = (self->words + BLOCK - 1) / BLOCK;
    int64_t inner = (self->features + 1) * self->tokens, all = self->words * self->tokens;
    int64_t each = self->blocks * self->tokens, room = (int64_t)PARTS * BLOCK * self->tokens;
    const struct {
        real **to;
        int64_t count;
    } arrays[] = {{&self->X, inner},
                  {&self->tX, inner},
                  {&self->E, all},
                  {&self->T, all},
                  {&self->most, each},
                  {&self->sum, each},
                  {&self->spread, each},
                  {&self->level, self->tokens},
                  {&self->mean, self->tokens},
                  {&self->at, self->tokens},
                  {&self->t_at, self->tokens},
                  {&self->D, room},
                  {&self->tD, room},
                  {&self->pull, PARTS * inner},
                  {&self->share, self->tokens},
                  {&self->factor, 2 * (int64_t)PARTS * self->tokens}};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        *arrays[i].to = call->memory ? (real *)call->memory + used : NULL;
        used += (arrays[i].count + 15) / 16 * 16;
    }
    return used * (int64_t)sizeof(real);
}

static psgd_status decoder_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 3));
    const psgd_operand *x = &call->input[0], *W = &call->input[1], *labels = &call->input[2];
    if (x->modes != 3 || W->modes != 2 || W->shape[1] != x->shape[1] + 1 || labels->modes != 2 ||
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

/* X[i, (t, j)] <- x[t, i, j], and the last row */
static void gather(const decoder *self, const real *x, real last, real *X)
{
    for (int64_t i = 0; i < self->features; i++) {
        for (int64_t t = 0; t < self->times; t++) {
            memcpy(X + i * self->tokens + t * self->n, x + (t * self->features + i) * self->n,
                   (size_t)self->n * sizeof *x);
        }
    }
    for (int64_t j = 0; j < self->tokens; j++) X[self->features * self->tokens + j] = last;
}

/* dx[t, i, j] <- [dx +] the sum of the parts of X[i, (t, j)] */
static void scatter(const decoder *self, bool add, real *dx)
{
    int64_t inner = (self->features + 1) * self->tokens;
    for (int64_t t = 0; t < self->times; t++) {
        for (int64_t i = 0; i < self->features; i++) {
            const real *from = self->pull + i * self->tokens + t * self->n;
            real *to = dx + (t * self->features + i) * self->n;
            for (int64_t j = 0; j < self->n; j++) {
                real sum = add ? to[j] : 0;
                for (int64_t part = 0; part < PARTS; part++) sum += from[part * inner + j];
                to[j] = sum;
            }
        }
    }
}

/* One kernel's work on the parts: what a task gets. */
typedef struct job {
    psgd_op_call *call;
    decoder sizes;
} job;

typedef struct block {
    int64_t number, from, rows; /* words from .. from + rows - 1 */
} block;

static block block_of(const decoder *self, int64_t number)
{
    int64_t from = number * BLOCK;
    return (block){number, from, self->words - from < BLOCK ? self->words - from : BLOCK};
}

static int64_t first_block(const decoder *self, int64_t part)
{
    return part * self->blocks / PARTS;
}

static double work_of(const decoder *self)
{
    return 2 * (double)self->words * (double)self->tokens * (double)self->features;
}

/* to[token] <- Z of its label, for the labels in this block */
static void take_labels(const decoder *self, const real *labels, block b, const real *Z, real *to)
{
    for (int64_t j = 0; j < self->tokens; j++) {
        int64_t row = (int64_t)labels[j] - b.from;
        if (row >= 0 && row < b.rows) to[j] = Z[row * self->tokens + j];
    }
}

static void forward_part(void *data, int64_t part)
{
    const job *work = data;
    const decoder *self = &work->sizes;
    const la_kernels *k = la_kernel();
    int64_t N = self->tokens, inner = self->features + 1;
    for (int64_t number = first_block(self, part); number < first_block(self, part + 1); number++) {
        block b = block_of(self, number);
        real *E = self->E + b.from * N, *most = self->most + number * N, *sum = self->sum + number * N;
        la_gemm(false, false, b.rows, N, inner, 1, X(work->call, 1) + b.from * inner, inner, self->X, N, 0, E, N);
        take_labels(self, X(work->call, 2), b, E, self->at);
        memcpy(most, E, (size_t)N * sizeof *most);
        for (int64_t i = 1; i < b.rows; i++) {
            for (int64_t j = 0; j < N; j++) most[j] = E[i * N + j] > most[j] ? E[i * N + j] : most[j];
        }
        for (int64_t j = 0; j < N; j++) sum[j] = 0;
        for (int64_t i = 0; i < b.rows; i++) {
            k->exp_minus(N, E + i * N, most, E + i * N);
            for (int64_t j = 0; j < N; j++) sum[j] += E[i * N + j];
        }
    }
}

/* level from the blocks, then f_b in the place of sum. */
static void find_levels(const decoder *self)
{
    int64_t N = self->tokens;
    for (int64_t j = 0; j < N; j++) {
        real most = self->most[j];
        for (int64_t b = 1; b < self->blocks; b++) most = self->most[b * N + j] > most ? self->most[b * N + j] : most;
        self->level[j] = most;
    }
    real *total = self->mean, *e = self->t_at; /* not in use yet */
    for (int64_t j = 0; j < N; j++) total[j] = 0;
    for (int64_t b = 0; b < self->blocks; b++) {
        la_kernel()->exp_minus(N, self->most + b * N, self->level, e);
        for (int64_t j = 0; j < N; j++) total[j] += e[j] * self->sum[b * N + j];
    }
    for (int64_t j = 0; j < N; j++) self->level[j] += (real)log((double)total[j]);
    for (int64_t b = 0; b < self->blocks; b++)
        la_kernel()->exp_minus(N, self->most + b * N, self->level, self->sum + b * N);
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
    job work = {.call = call};
    decoder *self = &work.sizes;
    lay_out(call, self);
    PSGD_TRY(count_labels(self, X(call, 2)));
    gather(self, X(call, 0), 1, self->X);
    la_parallel(PARTS, work_of(self), forward_part, &work);
    find_levels(self);
    Y(call)[0] = (real)mean_difference(self, self->level, self->at);
    return PSGD_OK;
}

static void tangent_part(void *data, int64_t part)
{
    const job *work = data;
    const decoder *self = &work->sizes;
    const psgd_op_call *call = work->call;
    int64_t N = self->tokens, inner = self->features + 1;
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    for (int64_t number = first_block(self, part); number < first_block(self, part + 1); number++) {
        block b = block_of(self, number);
        real *T = self->T + b.from * N, *spread = self->spread + number * N;
        const real *E = self->E + b.from * N;
        if (live_W)
            la_gemm(false, false, b.rows, N, inner, 1, TX(call, 1) + b.from * inner, inner, self->X, N, 0, T, N);
        if (live_x) {
            la_gemm(false, false, b.rows, N, self->features, 1, X(call, 1) + b.from * inner, inner, self->tX, N,
                    live_W ? 1 : 0, T, N);
        }
        take_labels(self, X(call, 2), b, T, self->t_at);
        for (int64_t j = 0; j < N; j++) spread[j] = 0;
        for (int64_t i = 0; i < b.rows; i++) {
            for (int64_t j = 0; j < N; j++) spread[j] += E[i * N + j] * T[i * N + j];
        }
    }
}

static void decoder_tangent(psgd_op_call *call)
{
    job work = {.call = call};
    decoder *self = &work.sizes;
    lay_out(call, self);
    if (call->input[0].live) gather(self, TX(call, 0), 0, self->tX);
    la_parallel(PARTS, 2 * work_of(self), tangent_part, &work);
    int64_t N = self->tokens;
    for (int64_t j = 0; j < N; j++) self->mean[j] = 0;
    for (int64_t b = 0; b < self->blocks; b++) {
        for (int64_t j = 0; j < N; j++) self->mean[j] += self->sum[b * N + j] * self->spread[b * N + j];
    }
    TY(call)[0] = (real)mean_difference(self, self->mean, self->t_at);
}

/* z <- z - c share at the labels of a block */
static void subtract_labels(const decoder *self, const real *labels, block b, real c, real *Z)
{
    for (int64_t j = 0; j < self->tokens; j++) {
        int64_t row = (int64_t)labels[j] - b.from;
        if (row >= 0 && row < b.rows) Z[row * self->tokens + j] -= c * self->share[j];
    }
}

/* factor <- c share f, so that factor E = c share p on a block */
static void make_factor(const decoder *self, block b, real c, real *factor)
{
    const real *f = self->sum + b.number * self->tokens;
    for (int64_t j = 0; j < self->tokens; j++) factor[j] = c * self->share[j] * f[j];
}

/* D <- c share (p - onehot) on a block */
static void make_D(const decoder *self, const real *labels, block b, real c, real *restrict factor, real *restrict D)
{
    int64_t N = self->tokens;
    make_factor(self, b, c, factor);
    for (int64_t i = 0; i < b.rows; i++) {
        const real *E = self->E + (b.from + i) * N;
        for (int64_t j = 0; j < N; j++) D[i * N + j] = factor[j] * E[j];
    }
    subtract_labels(self, labels, b, c, D);
}

/* D as above, and tD <- c share p (T - <p, T>) + tc share (p - onehot), in one pass over E and T */
static void make_both(const decoder *self, const real *labels, block b, real c, real tc, real *restrict factor,
                      real *restrict D, real *restrict tD)
{
    int64_t N = self->tokens;
    real *restrict shift = factor + N;
    const real *restrict mean = self->mean;
    make_factor(self, b, c, factor);
    make_factor(self, b, tc, shift);
    for (int64_t i = 0; i < b.rows; i++) {
        const real *E = self->E + (b.from + i) * N, *T = self->T + (b.from + i) * N;
        for (int64_t j = 0; j < N; j++) {
            D[i * N + j] = factor[j] * E[j];
            tD[i * N + j] = factor[j] * E[j] * (T[j] - mean[j]) + shift[j] * E[j];
        }
    }
    subtract_labels(self, labels, b, c, D);
    subtract_labels(self, labels, b, tc, tD);
}

static void backward_part(void *data, int64_t part)
{
    const job *work = data;
    const decoder *self = &work->sizes;
    const psgd_op_call *call = work->call;
    int64_t N = self->tokens, inner = self->features + 1, first = first_block(self, part);
    real *D = self->D + part * BLOCK * N, *pull = self->pull + part * inner * N;
    if (first == first_block(self, part + 1)) memset(pull, 0, (size_t)(inner * N) * sizeof *pull);
    for (int64_t number = first; number < first_block(self, part + 1); number++) {
        block b = block_of(self, number);
        make_D(self, X(call, 2), b, DY(call)[0], self->factor + 2 * part * N, D);
        if (call->input[1].live) {
            la_gemm(false, true, b.rows, inner, N, 1, D, N, self->X, N, call->add[1] ? 1 : 0,
                    DX(call, 1) + b.from * inner, inner);
        }
        if (call->input[0].live) {
            la_gemm(true, false, self->features, N, b.rows, 1, X(call, 1) + b.from * inner, inner, D, N,
                    number == first ? 0 : 1, pull, N);
        }
    }
}

static void decoder_backward(psgd_op_call *call)
{
    job work = {.call = call};
    lay_out(call, &work.sizes);
    la_parallel(PARTS, 2 * work_of(&work.sizes), backward_part, &work);
    if (call->input[0].live) scatter(&work.sizes, call->add[0], DX(call, 0));
}

static void tangent_backward_part(void *data, int64_t part)
{
    const job *work = data;
    const decoder *self = &work->sizes;
    const psgd_op_call *call = work->call;
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    int64_t N = self->tokens, inner = self->features + 1, first = first_block(self, part);
    real *pull = self->pull + part * inner * N;
    real *D = self->D + part * BLOCK * N, *tD = self->tD + part * BLOCK * N;
    if (first == first_block(self, part + 1)) memset(pull, 0, (size_t)(inner * N) * sizeof *pull);
    for (int64_t number = first; number < first_block(self, part + 1); number++) {
        block b = block_of(self, number);
        const real *W = X(call, 1) + b.from * inner;
        make_both(self, X(call, 2), b, DY(call)[0], TDY(call)[0], self->factor + 2 * part * N, D, tD);
        if (live_W) {
            real *tdW = TDX(call, 1) + b.from * inner;
            la_gemm(false, true, b.rows, inner, N, 1, tD, N, self->X, N, call->add[1] ? 1 : 0, tdW, inner);
            if (live_x) la_gemm(false, true, b.rows, self->features, N, 1, D, N, self->tX, N, 1, tdW, inner);
        }
        if (live_x) {
            la_gemm(true, false, self->features, N, b.rows, 1, W, inner, tD, N, number == first ? 0 : 1, pull, N);
            if (live_W) {
                la_gemm(true, false, self->features, N, b.rows, 1, TX(call, 1) + b.from * inner, inner, D, N, 1, pull,
                        N);
            }
        }
    }
}

static void decoder_tangent_backward(psgd_op_call *call)
{
    job work = {.call = call};
    lay_out(call, &work.sizes);
    la_parallel(PARTS, 4 * work_of(&work.sizes), tangent_backward_part, &work);
    if (call->input[0].live) scatter(&work.sizes, call->add[0], TDX(call, 0));
}

const psgd_op OP(decoder) = {
    .name = "decoder",
    .check = decoder_check,
    .forward = decoder_forward,
    .tangent = decoder_tangent,
    .backward = decoder_backward,
    .tangent_backward = decoder_tangent_backward,
};
