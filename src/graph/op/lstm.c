/* An LSTM layer: [i; f; g; o] = W [x_t; h_(t-1); 1], c_t = s(f) c_(t-1) + s(i) tanh(g), h_t = s(o) tanh(c_t); W
 * [4 hidden, in + hidden + 1] (paper, section 7.3).
 *
 * The cell's four kernels are in la/kernel/activate.c; this file loops over time. The forward pass keeps the activated
 * gates, c and tanh c; backward keeps the gradients of the gates before activation, of c and of h for tangent_backward.
 * The state before the first time is a constant. */
#include "graph/op/recurrent.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <string.h>

typedef struct lstm_memory {
    real *a, *c, *s;           /* [times, 4 hidden, n], [times, hidden, n] */
    real *ta, *tc, *ts;        /* tangents of those */
    real *da, *dct, *dh, *tda; /* as a, c, c, a */
    real *tdh, *dc, *tdc;      /* [hidden, n]: running */
    real *zero;                /* [hidden, n]: the tangent of the state before the first time */
} lstm_memory;

/* Places in units of [times, hidden, n], then in units of [hidden, n]. */
enum { LARGE = 4 + 1 + 1 + 4 + 1 + 1 + 4 + 1 + 1 + 4, SMALL = 4 };

static lstm_memory memory_of(const psgd_op_call *call)
{
    real *at = call->memory;
    int64_t large = call->output.size, small = large / call->output.shape[0];
    lstm_memory m;
    real **const wide[] = {&m.a, &m.ta, &m.da, &m.tda};
    real **const plain[] = {&m.c, &m.s, &m.tc, &m.ts, &m.dct, &m.dh};
    real **const running[] = {&m.tdh, &m.dc, &m.tdc, &m.zero};
    for (int i = 0; i < 4; i++, at += 4 * large) *wide[i] = at;
    for (int i = 0; i < 6; i++, at += large) *plain[i] = at;
    for (int i = 0; i < SMALL; i++, at += small) *running[i] = at;
    return m;
}

static psgd_status lstm_check(psgd_op_call *call)
{
    PSGD_TRY(recurrent_check(call, 4));
    const int64_t *y = call->output.shape;
    call->memory_bytes = (LARGE * y[0] + SMALL) * y[1] * y[2] * (int64_t)sizeof(real);
    recurrent_reserve(call);
    call->state_size = 2 * y[1] * y[2]; /* h, then c */
    return PSGD_OK;
}

/* The cell of hidden unit i at time t, for all four kernels. */
static la_lstm cell_at(const psgd_op_call *call, const lstm_memory *m, const recurrent *r, int64_t t, int64_t i)
{
    int64_t step = r->hidden * r->n, row = i * r->n + r->from, at = t * step + row;
    const real *state = call->state;
    la_lstm cell = {
        .c = m->c + at,
        .s = m->s + at,
        .h = Y(call) + at,
        .tc = m->tc + at,
        .ts = m->ts + at,
        .th = TY(call) ? TY(call) + at : NULL,
        .c0 = t ? m->c + at - step : state + step + row,
        .tc0 = t ? m->tc + at - step : m->zero + row,
        .dct = m->dct + at,
        .dh = m->dh + at,
        .tdh = m->tdh + row,
        .dc = m->dc + row,
        .tdc = m->tdc + row,
    };
    for (int g = 0; g < 4; g++) {
        int64_t gate = (4 * t + g) * step + row;
        cell.a[g] = m->a + gate;
        cell.ta[g] = m->ta + gate;
        cell.da[g] = m->da + gate;
        cell.tda[g] = m->tda + gate;
    }
    return cell;
}

typedef void cell_kernel(int64_t n, const la_lstm *cell);

enum { CELLS = 1024 };

/* Cells of one time whose rows lie one after the other. */
typedef struct flat_cells {
    la_lstm first;
    int64_t count;
    cell_kernel *kernel;
} flat_cells;

static void run_cell_block(void *data, int64_t block)
{
    const flat_cells *all = data;
    la_lstm cell = all->first;
    int64_t from = block * CELLS, count = all->count - from < CELLS ? all->count - from : CELLS;
    real **const own[] = {&cell.c, &cell.s, &cell.h, &cell.tc, &cell.ts, &cell.th, &cell.dct, &cell.dc, &cell.tdc};
    const real **const read[] = {&cell.c0, &cell.tc0, &cell.dh, &cell.tdh};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (*own[i]) *own[i] += from;
    }
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) *read[i] += from;
    for (int g = 0; g < 4; g++) {
        cell.a[g] += from;
        cell.ta[g] += from;
        cell.da[g] += from;
        cell.tda[g] += from;
    }
    all->kernel(count, &cell);
}

static void run_cells(const psgd_op_call *call, const lstm_memory *m, const recurrent *r, int64_t t,
                      cell_kernel *kernel)
{
    if (r->count == r->n) {
        flat_cells all = {cell_at(call, m, r, t, 0), r->hidden * r->n, kernel};
        la_parallel((all.count + CELLS - 1) / CELLS, 50 * (double)all.count, run_cell_block, &all);
        return;
    }
    for (int64_t i = 0; i < r->hidden; i++) {
        la_lstm cell = cell_at(call, m, r, t, i);
        kernel(r->count, &cell);
    }
}

static void forward_chunk(void *data, int64_t chunk)
{
    psgd_op_call *call = data;
    lstm_memory m = memory_of(call);
    recurrent r;
    recurrent_open(call, chunk, &r);
    int64_t step = r.hidden * r.n;
    for (int64_t t = 0; t < r.times; t++) {
        const real *before = t ? Y(call) + (t - 1) * step + r.from : (const real *)call->state + r.from;
        const real *x = X(call, 0) + t * r.in * r.n + r.from;
        recurrent_mix(&r, X(call, 1), x, before, true, false, m.a + 4 * t * step + r.from);
        run_cells(call, &m, &r, t, la_kernel()->lstm_forward);
    }
}

static psgd_status lstm_forward(psgd_op_call *call)
{
    la_parallel(recurrent_chunks(call), call->flops, forward_chunk, call);
    return PSGD_OK;
}

static void tangent_chunk(void *data, int64_t chunk)
{
    psgd_op_call *call = data;
    lstm_memory m = memory_of(call);
    bool live_x = call->input[0].live, live_W = call->input[1].live;
    recurrent r;
    recurrent_open(call, chunk, &r);
    int64_t step = r.hidden * r.n;
    for (int64_t t = 0; t < r.times; t++) {
        int64_t before = (t - 1) * step + r.from, x_at = t * r.in * r.n + r.from;
        real *ta = m.ta + 4 * t * step + r.from;
        recurrent_mix(&r, X(call, 1), live_x ? TX(call, 0) + x_at : NULL, t ? TY(call) + before : NULL, false, false,
                      ta);
        const real *h = t ? Y(call) + before : (const real *)call->state + r.from;
        if (live_W) recurrent_mix(&r, TX(call, 1), X(call, 0) + x_at, h, true, true, ta);
        run_cells(call, &m, &r, t, la_kernel()->lstm_tangent);
    }
}

static void lstm_tangent(psgd_op_call *call)
{
    la_parallel(recurrent_chunks(call), call->flops, tangent_chunk, call);
}

static void copy_rows(const recurrent *r, const real *from, real *to)
{
    for (int64_t i = 0; i < r->hidden; i++) memcpy(to + i * r->n, from + i * r->n, (size_t)r->count * sizeof *to);
}

static void clear_rows(const recurrent *r, real *to)
{
    for (int64_t i = 0; i < r->hidden; i++) memset(to + i * r->n, 0, (size_t)r->count * sizeof *to);
}

static void backward_chunk(void *data, int64_t chunk)
{
    psgd_op_call *call = data;
    lstm_memory m = memory_of(call);
    recurrent r;
    recurrent_open(call, chunk, &r);
    int64_t step = r.hidden * r.n;
    clear_rows(&r, m.dc + r.from);
    for (int64_t t = r.times - 1; t >= 0; t--) {
        real *dh = m.dh + t * step + r.from, *da = m.da + 4 * t * step + r.from;
        copy_rows(&r, DY(call) + t * step + r.from, dh);
        if (t + 1 < r.times) recurrent_mix_transpose(&r, X(call, 1), da + 4 * step, false, true, dh);
        run_cells(call, &m, &r, t, la_kernel()->lstm_backward);
        if (!call->input[0].live) continue;
        recurrent_mix_transpose(&r, X(call, 1), da, true, call->add[0], DX(call, 0) + t * r.in * r.n + r.from);
    }
}

static void lstm_backward(psgd_op_call *call)
{
    la_parallel(recurrent_chunks(call), call->flops, backward_chunk, call);
    if (!call->input[1].live) return;
    recurrent_weights(call, 4 * call->output.shape[1], memory_of(call).da, X(call, 0), Y(call), call->state, true,
                      call->add[1], DX(call, 1));
}

static void tangent_backward_chunk(void *data, int64_t chunk)
{
    psgd_op_call *call = data;
    lstm_memory m = memory_of(call);
    bool live_W = call->input[1].live;
    recurrent r;
    recurrent_open(call, chunk, &r);
    int64_t step = r.hidden * r.n;
    clear_rows(&r, m.tdc + r.from);
    for (int64_t t = r.times - 1; t >= 0; t--) {
        real *tdh = m.tdh + r.from, *tda = m.tda + 4 * t * step + r.from, *da = m.da + 4 * t * step + r.from;
        copy_rows(&r, TDY(call) + t * step + r.from, tdh);
        if (t + 1 < r.times) {
            recurrent_mix_transpose(&r, X(call, 1), tda + 4 * step, false, true, tdh);
            if (live_W) recurrent_mix_transpose(&r, TX(call, 1), da + 4 * step, false, true, tdh);
        }
        run_cells(call, &m, &r, t, la_kernel()->lstm_tangent_backward);
        if (!call->input[0].live) continue;
        real *tdx = TDX(call, 0) + t * r.in * r.n + r.from;
        recurrent_mix_transpose(&r, X(call, 1), tda, true, call->add[0], tdx);
        if (live_W) recurrent_mix_transpose(&r, TX(call, 1), da, true, true, tdx);
    }
}

static void lstm_tangent_backward(psgd_op_call *call)
{
    lstm_memory m = memory_of(call);
    int64_t rows = 4 * call->output.shape[1];
    la_parallel(recurrent_chunks(call), call->flops, tangent_backward_chunk, call);
    if (!call->input[1].live) return;
    recurrent_weights(call, rows, m.tda, X(call, 0), Y(call), call->state, true, call->add[1], TDX(call, 1));
    recurrent_weights(call, rows, m.da, call->input[0].live ? TX(call, 0) : NULL, TY(call), NULL, false, true,
                      TDX(call, 1));
}

static void lstm_carry(psgd_op_call *call)
{
    int64_t size = call->state_size / 2;
    real *state = call->state;
    memcpy(state, Y(call) + call->output.size - size, (size_t)size * sizeof *state);
    memcpy(state + size, memory_of(call).c + call->output.size - size, (size_t)size * sizeof *state);
}

const psgd_op OP(lstm) = {OP_KERNELS(lstm), .carry = lstm_carry};
