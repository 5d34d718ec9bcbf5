/* An LSTM layer: [i; f; g; o] = W [x_t; h_(t-1); 1], c_t = s(f) c_(t-1) + s(i) tanh(g), h_t = s(o) tanh(c_t); W
 * [4 hidden, in + hidden + 1] (paper, section 7.3).
 *
 * The cell's four kernels are in la/kernel/activate.c; recurrent.c loops over time. The forward pass keeps the
 * activated gates, c and tanh c; backward keeps the gradients of the gates before activation, of c and of h for
 * tangent_backward. The state before the first time is a constant. */
#include "graph/op/recurrent.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <string.h>

typedef struct lstm_memory {
    recurrent_arrays in_time;    /* rows are 4 hidden */
    real *c, *s, *tc, *ts, *dct; /* [times, hidden, n]: c, tanh c, tangents of those, the gradient of c */
    real *dc, *tdc;              /* [hidden, n]: running */
    real *zero;                  /* [hidden, n]: the tangent of the state before the first time */
} lstm_memory;

/* Places in units of [times, hidden, n], then in units of [hidden, n]. */
enum { LARGE = 4 + 1 + 1 + 4 + 1 + 1 + 4 + 1 + 1 + 4, SMALL = 4 };

static lstm_memory memory_of(const psgd_op_call *call)
{
    real *at = call->memory;
    int64_t large = call->output.size, small = large / call->output.shape[0];
    lstm_memory m;
    real **const wide[] = {&m.in_time.a, &m.in_time.ta, &m.in_time.da, &m.in_time.tda};
    real **const plain[] = {&m.c, &m.s, &m.tc, &m.ts, &m.dct, &m.in_time.dh};
    real **const running[] = {&m.in_time.tdh, &m.dc, &m.tdc, &m.zero};
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

/* The cells from this offset into [hidden, n] on at time t, for all four kernels. */
static la_lstm cell_at(const psgd_op_call *call, const lstm_memory *m, const recurrent *r, int64_t t, int64_t offset)
{
    int64_t step = r->hidden * r->n, row = offset + r->from, at = t * step + row;
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
        .dh = m->in_time.dh + at,
        .tdh = m->in_time.tdh + row,
        .dc = m->dc + row,
        .tdc = m->tdc + row,
    };
    for (int g = 0; g < 4; g++) {
        int64_t gate = (4 * t + g) * step + row;
        cell.a[g] = m->in_time.a + gate;
        cell.ta[g] = m->in_time.ta + gate;
        cell.da[g] = m->in_time.da + gate;
        cell.tda[g] = m->in_time.tda + gate;
    }
    return cell;
}

typedef void cell_kernel(int64_t n, const la_lstm *cell);

enum { CELLS = 1024 };

/* Cells of one time whose rows lie one after the other. */
typedef struct flat_cells {
    const psgd_op_call *call;
    const lstm_memory *memory;
    const recurrent *r;
    int64_t t;
    cell_kernel *kernel;
} flat_cells;

static void run_cell_block(void *data, int64_t block)
{
    const flat_cells *all = data;
    int64_t from = block * CELLS, rest = all->r->hidden * all->r->n - from;
    la_lstm cell = cell_at(all->call, all->memory, all->r, all->t, from);
    all->kernel(rest < CELLS ? rest : CELLS, &cell);
}

static void clear_rows(const recurrent *r, real *to)
{
    for (int64_t i = 0; i < r->hidden; i++) memset(to + i * r->n, 0, (size_t)r->count * sizeof *to);
}

static void run_cells(const psgd_op_call *call, const recurrent *r, int64_t t, recurrent_pass pass)
{
    const la_kernels *k = la_kernel();
    cell_kernel *const kernels[] = {k->lstm_forward, k->lstm_tangent, k->lstm_backward, k->lstm_tangent_backward};
    lstm_memory m = memory_of(call);
    if (pass >= backward_pass && t == r->times - 1) clear_rows(r, (pass == backward_pass ? m.dc : m.tdc) + r->from);
    if (r->count == r->n) {
        int64_t count = r->hidden * r->n;
        flat_cells all = {call, &m, r, t, kernels[pass]};
        la_parallel((count + CELLS - 1) / CELLS, 50 * (double)count, run_cell_block, &all);
        return;
    }
    for (int64_t i = 0; i < r->hidden; i++) {
        la_lstm cell = cell_at(call, &m, r, t, i * r->n);
        kernels[pass](r->count, &cell);
    }
}

static void run(psgd_op_call *call, recurrent_pass pass)
{
    lstm_memory m = memory_of(call);
    recurrent_run(call, pass, &m.in_time, run_cells);
}

static psgd_status lstm_forward(psgd_op_call *call)
{
    run(call, forward_pass);
    return PSGD_OK;
}

static void lstm_tangent(psgd_op_call *call)
{
    run(call, tangent_pass);
}

static void lstm_backward(psgd_op_call *call)
{
    run(call, backward_pass);
}

static void lstm_tangent_backward(psgd_op_call *call)
{
    run(call, tangent_backward_pass);
}

static void lstm_carry(psgd_op_call *call)
{
    int64_t size = call->state_size / 2;
    real *state = call->state;
    memcpy(state, Y(call) + call->output.size - size, (size_t)size * sizeof *state);
    memcpy(state + size, memory_of(call).c + call->output.size - size, (size_t)size * sizeof *state);
}

const psgd_op OP(lstm) = {
    OP_TABLE("lstm", lstm_check, lstm_forward, lstm_tangent, lstm_backward, lstm_tangent_backward),
    .carry = lstm_carry};
