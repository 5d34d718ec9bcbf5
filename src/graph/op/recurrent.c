/* The loops over time, one matrix product per step, and the sums over time for dW. */
#include "graph/op/recurrent.h"
#include "la/array/dispatch.h"
#include "la/network/network.h"
#include "la/pool.h"

#include <string.h>

enum { CHUNK = 64, ROW_BLOCK = 12 };

/* From about 100 x 100 on the products of a time step are faster with BLAS, on rows shared among threads, than with the
 * small kernels on samples shared among them. A matrix too wide for their offset tables always goes to BLAS. */
enum { LARGE = 10000 };

static bool is_large(const psgd_op_call *call)
{
    const psgd_operand *W = &call->input[1];
    return W->size >= LARGE || W->shape[0] > RECURRENT_WIDEST || W->shape[1] > RECURRENT_WIDEST;
}

psgd_status recurrent_check(psgd_op_call *call, int64_t rows_each)
{
    PSGD_TRY(op_inputs(call, 2));
    const psgd_operand *x = &call->input[0], *W = &call->input[1];
    if (x->ndim != 3) return psgd__fail(PSGD_ERR_ARGUMENT, "it takes [times, features, n]");
    int64_t hidden = W->ndim == 2 ? W->shape[0] / rows_each : 0;
    if (W->ndim != 2 || hidden < 1 || W->shape[0] % rows_each || W->shape[1] != x->shape[1] + hidden + 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%lld features need a matrix [%s, %lld + hidden + 1]",
                          (long long)x->shape[1], rows_each == 4 ? "4 hidden" : "hidden", (long long)x->shape[1]);
    }
    tensor_like(&call->output, x);
    call->output.shape[1] = hidden;
    call->flops = 2 * (double)W->size * (double)x->shape[0] * (double)x->shape[2];
    return PSGD_OK;
}

static int64_t chunks_of(const psgd_op_call *call)
{
    return is_large(call) ? 1 : (call->output.shape[2] + CHUNK - 1) / CHUNK;
}

static void open_chunk(const psgd_op_call *call, int64_t chunk, recurrent *self)
{
    const int64_t *x = call->input[0].shape, *y = call->output.shape;
    self->times = x[0];
    self->in = x[1];
    self->n = x[2];
    self->hidden = y[1];
    self->rows = call->input[1].shape[0];
    self->ld = call->input[1].shape[1];
    self->from = chunk * CHUNK;
    self->large = is_large(call);
    self->count = self->large || self->n - self->from < CHUNK ? self->n - self->from : CHUNK;
    int64_t max = self->rows > self->ld ? self->rows : self->ld;
    for (int64_t i = 0; !self->large && i < max; i++) {
        self->plain[i] = i;
        self->lds[i] = i * self->n;
        self->columns[i] = i * self->ld;
    }
}

static void large_mix(const recurrent *self, const real *W, const real *x, const real *h, bool bias, bool add, real *A)
{
    int64_t n = self->n, in = self->in, hidden = self->hidden;
    if (bias) la_spread_bias(self->rows, n, W + in + hidden, self->ld, add, A);
    if (!x && !h && !bias && !add) memset(A, 0, (size_t)(self->rows * n) * sizeof *A);
    if (x) la_product(self->rows, in, n, W, self->ld, false, x, add || bias, A);
    if (h) la_product(self->rows, hidden, n, W + in, self->ld, false, h, add || bias || x, A);
}

/* A [rows, n] <- [A +] Wx x + Wh h + bias, the first two where x or h is not NULL; all pointers at the first sample. */
static void mix(const recurrent *self, const real *W, const real *x, const real *h, bool bias, bool add, real *A)
{
    if (self->large) {
        large_mix(self, W, x, h, bias, add, A);
        return;
    }
    const la_kernels *k = la_kernel();
    la_mix m = {.rows = self->rows,
                .depth = x ? self->in : 0,
                .a_ld = self->ld,
                .y_ld = self->n,
                .a_offset = self->plain,
                .b_offset = self->lds,
                .bias = bias ? W + self->in + self->hidden : NULL,
                .bias_ld = self->ld,
                .add = add};
    if (x || bias || !h) k->mix(&m, self->count, W, x, A);
    if (!h) return;
    m.add = add || x || bias;
    m.bias = NULL;
    m.depth = self->hidden;
    k->mix(&m, self->count, W + self->in, h, A);
}

/* z <- [z +] W'A, the columns of W for x or those for h. */
static void mix_transpose(const recurrent *self, const real *W, const real *A, bool for_x, bool add, real *z)
{
    if (self->large) {
        int64_t columns = for_x ? self->in : self->hidden;
        la_product(self->rows, columns, self->n, for_x ? W : W + self->in, self->ld, true, A, add, z);
        return;
    }
    la_mix m = {.rows = for_x ? self->in : self->hidden,
                .depth = self->rows,
                .a_ld = 1,
                .y_ld = self->n,
                .a_offset = self->columns,
                .b_offset = self->lds,
                .add = add};
    la_kernel()->mix(&m, self->count, for_x ? W : W + self->in, A, z);
}

typedef struct sums {
    const psgd_op_call *call;
    int64_t rows;
    const real *A, *x, *h, *first;
    bool bias, add;
    real *dW;
} sums;

/* Rows of dW are independent: each task sums a block of them. */
static void sum_block(void *data, int64_t block)
{
    const sums *s = data;
    const la_kernels *k = la_kernel();
    const int64_t *shape = s->call->input[0].shape;
    int64_t times = shape[0], in = shape[1], n = shape[2], hidden = s->call->output.shape[1], ld = in + hidden + 1;
    int64_t from = block * ROW_BLOCK, rows = s->rows - from < ROW_BLOCK ? s->rows - from : ROW_BLOCK;
    int64_t offset[RECURRENT_WIDEST], widest = in > hidden ? in : hidden;
    real *dW = s->dW + from * ld;
    for (int64_t i = 0; i < widest; i++) offset[i] = i * n;
    for (int64_t i = 0; !s->add && i < rows; i++) memset(dW + i * ld, 0, (size_t)ld * sizeof *dW);

    la_cross cross = {.rows = rows,
                      .columns = in,
                      .outer = times,
                      .inner = 1,
                      .a_ld = n,
                      .a_outer = s->rows * n,
                      .b_outer = in * n,
                      .r_ld = ld,
                      .b_offset = offset};
    if (s->x) k->cross(&cross, n, s->A + from * n, s->x, dW);
    cross.columns = hidden;
    cross.b_outer = hidden * n;
    cross.outer = times - 1;
    if (times > 1) k->cross(&cross, n, s->A + (s->rows + from) * n, s->h, dW + in);
    cross.outer = 1;
    if (s->first) k->cross(&cross, n, s->A + from * n, s->first, dW + in);
    for (int64_t i = 0; s->bias && i < rows; i++) {
        double sum = 0;
        for (int64_t t = 0; t < times; t++) sum += k->sum(n, s->A + (t * s->rows + from + i) * n);
        dW[i * ld + in + hidden] += (real)sum;
    }
}

/* Elements that large_weights gathers in the op's memory: A of all times, and x or h of all times. */
static int64_t room_size(const psgd_op_call *call)
{
    const int64_t *x = call->input[0].shape;
    int64_t hidden = call->output.shape[1], widest = x[1] > hidden ? x[1] : hidden;
    return is_large(call) ? (call->input[1].shape[0] + widest) * x[0] * x[2] : 0;
}

void recurrent_reserve(psgd_op_call *call)
{
    call->memory_bytes += room_size(call) * (int64_t)sizeof(real);
}

/* to[i, (t, j)] <- x[t, i, j]; for h, one time later: the first is that before the first time, zero where NULL. */
typedef struct joining {
    int64_t times, rows, n;
    const real *x, *first;
    bool later;
    real *to;
} joining;

static void join_row(void *data, int64_t i)
{
    const joining *j = data;
    for (int64_t t = 0; t < j->times; t++) {
        const real *from = j->later && t == 0 ? j->first : j->x + (t - j->later) * j->rows * j->n;
        real *to = j->to + (i * j->times + t) * j->n;
        if (from) memcpy(to, from + i * j->n, (size_t)j->n * sizeof *to);
        if (!from) memset(to, 0, (size_t)j->n * sizeof *to);
    }
}

static void join(joining j)
{
    la_parallel(j.rows, 4 * (double)(j.rows * j.times * j.n), join_row, &j);
}

/* The same by BLAS, one product over all times. */
static void large_weights(const sums *s)
{
    const int64_t *shape = s->call->input[0].shape;
    int64_t times = shape[0], in = shape[1], n = shape[2], hidden = s->call->output.shape[1], ld = in + hidden + 1;
    int64_t all = times * n;
    real *A = (real *)s->call->memory + s->call->memory_bytes / (int64_t)sizeof(real) - room_size(s->call);
    real *B = A + s->rows * all;
    join((joining){times, s->rows, n, s->A, .to = A});
    if (s->x) {
        join((joining){times, in, n, s->x, .to = B});
        la_outer(s->rows, in, all, A, B, s->add, s->dW, ld);
    } else if (!s->add) {
        for (int64_t i = 0; i < s->rows; i++) memset(s->dW + i * ld, 0, (size_t)in * sizeof *s->dW);
    }
    join((joining){times, hidden, n, s->h, .first = s->first, .later = true, .to = B});
    la_outer(s->rows, hidden, all, A, B, s->add, s->dW + in, ld);
    if (s->bias) la_row_sums(s->rows, all, A, s->add, s->dW + in + hidden, ld);
    for (int64_t i = 0; !s->bias && !s->add && i < s->rows; i++) s->dW[(i + 1) * ld - 1] = 0;
}

/* dW <- [dW +] sum over time of A_t [x_t; h_(t-1); 1]'. x may be NULL (its columns are then left alone unless !add) and
 * so may first, the state before the first time, for zero. bias: the last column too. */
static void sum_weights(sums s)
{
    if (is_large(s.call)) {
        large_weights(&s);
    } else {
        la_parallel((s.rows + ROW_BLOCK - 1) / ROW_BLOCK, s.call->flops, sum_block, &s);
    }
}

typedef struct running {
    psgd_op_call *call;
    const recurrent_arrays *arrays;
    recurrent_cell *cell;
} running;

/* h before time t, at the first sample of the chunk. */
static const real *state_before(const psgd_op_call *call, const recurrent *r, int64_t t)
{
    return (t ? Y(call) + (t - 1) * r->hidden * r->n : (const real *)call->state) + r->from;
}

static void forward_chunk(void *data, int64_t chunk)
{
    const running *run = data;
    psgd_op_call *call = run->call;
    recurrent r;
    open_chunk(call, chunk, &r);
    for (int64_t t = 0; t < r.times; t++) {
        const real *x = X(call, 0) + t * r.in * r.n + r.from;
        mix(&r, X(call, 1), x, state_before(call, &r, t), true, false, run->arrays->a + t * r.rows * r.n + r.from);
        run->cell(call, &r, t, forward_pass);
    }
}

static void tangent_chunk(void *data, int64_t chunk)
{
    const running *run = data;
    psgd_op_call *call = run->call;
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    recurrent r;
    open_chunk(call, chunk, &r);
    for (int64_t t = 0; t < r.times; t++) {
        int64_t x_at = t * r.in * r.n + r.from;
        const real *tx = live_x ? TX(call, 0) + x_at : NULL;
        const real *th = t ? TY(call) + (t - 1) * r.hidden * r.n + r.from : NULL;
        real *ta = run->arrays->ta + t * r.rows * r.n + r.from;
        mix(&r, X(call, 1), tx, th, false, false, ta);
        if (live_W) mix(&r, TX(call, 1), X(call, 0) + x_at, state_before(call, &r, t), true, true, ta);
        run->cell(call, &r, t, tangent_pass);
    }
}

static void copy_rows(const recurrent *r, const real *from, real *to)
{
    for (int64_t i = 0; i < r->hidden; i++) memcpy(to + i * r->n, from + i * r->n, (size_t)r->count * sizeof *to);
}

static void backward_chunk(void *data, int64_t chunk)
{
    const running *run = data;
    psgd_op_call *call = run->call;
    recurrent r;
    open_chunk(call, chunk, &r);
    for (int64_t t = r.times - 1; t >= 0; t--) {
        int64_t step = r.rows * r.n, at = t * r.hidden * r.n + r.from;
        real *dh = run->arrays->dh + at, *da = run->arrays->da + t * step + r.from;
        copy_rows(&r, DY(call) + at, dh);
        if (t + 1 < r.times) mix_transpose(&r, X(call, 1), da + step, false, true, dh);
        run->cell(call, &r, t, backward_pass);
        if (!call->input[0].live) continue;
        mix_transpose(&r, X(call, 1), da, true, call->add[0], DX(call, 0) + t * r.in * r.n + r.from);
    }
}

static void tangent_backward_chunk(void *data, int64_t chunk)
{
    const running *run = data;
    psgd_op_call *call = run->call;
    bool live_W = call->input[1].live;
    recurrent r;
    open_chunk(call, chunk, &r);
    for (int64_t t = r.times - 1; t >= 0; t--) {
        int64_t step = r.rows * r.n, at = t * step + r.from;
        real *tdh = run->arrays->tdh + r.from, *tda = run->arrays->tda + at, *da = run->arrays->da + at;
        copy_rows(&r, TDY(call) + t * r.hidden * r.n + r.from, tdh);
        if (t + 1 < r.times) {
            mix_transpose(&r, X(call, 1), tda + step, false, true, tdh);
            if (live_W) mix_transpose(&r, TX(call, 1), da + step, false, true, tdh);
        }
        run->cell(call, &r, t, tangent_backward_pass);
        if (!call->input[0].live) continue;
        real *tdx = TDX(call, 0) + t * r.in * r.n + r.from;
        mix_transpose(&r, X(call, 1), tda, true, call->add[0], tdx);
        if (live_W) mix_transpose(&r, TX(call, 1), da, true, true, tdx);
    }
}

void recurrent_run(psgd_op_call *call, recurrent_pass pass, const recurrent_arrays *arrays, recurrent_cell *cell)
{
    static void (*const tasks[])(void *, int64_t) = {forward_chunk, tangent_chunk, backward_chunk,
                                                     tangent_backward_chunk};
    int64_t rows = call->input[1].shape[0];
    bool add = call->add[1];
    la_parallel(chunks_of(call), call->flops, tasks[pass], &(running){call, arrays, cell});
    if (!call->input[1].live) return;
    if (pass == backward_pass) {
        sum_weights((sums){call, rows, arrays->da, X(call, 0), Y(call), call->state, true, add, DX(call, 1)});
    } else if (pass == tangent_backward_pass) {
        const real *tx = call->input[0].live ? TX(call, 0) : NULL;
        sum_weights((sums){call, rows, arrays->tda, X(call, 0), Y(call), call->state, true, add, TDX(call, 1)});
        sum_weights((sums){call, rows, arrays->da, tx, TY(call), NULL, false, true, TDX(call, 1)});
    }
}
