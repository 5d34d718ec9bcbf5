/* The decoder's products, one block of words at a time, and everything done with a block while it is in the cache.
 *
 * No block packs anything: X and its transpose are laid out in panels once per call, W is read in place, and logits and
 * D are computed in panels. */
#include "graph/op/decoder.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <stdatomic.h>
#include <string.h>

typedef struct packing {
    const decoder *self;
    const real *x;
    real last, *X, *Xt;
} packing;

/* LA_PANEL features: their rows of X and one panel of Xt. */
static void pack_features(void *data, int64_t panel)
{
    const packing *p = data;
    const decoder *self = p->self;
    int64_t from = panel * LA_PANEL, width = self->inner - from < LA_PANEL ? self->inner - from : LA_PANEL;
    real *Xt = p->Xt + from * self->tokens;
    for (int64_t j = 0; j < self->tokens; j++) {
        const real *x = p->x + j / self->n * self->features * self->n + j % self->n;
        real *X = p->X + (j / LA_PANEL * self->inner + from) * LA_PANEL + j % LA_PANEL;
        for (int64_t i = 0; i < width; i++) {
            real value = from + i < self->features ? x[(from + i) * self->n] : p->last;
            X[i * LA_PANEL] = value;
            Xt[j * LA_PANEL + i] = value;
        }
    }
}

void decoder_pack(const decoder *self, const real *x, real last, real *X, real *Xt)
{
    packing p = {self, x, last, X, Xt};
    la_parallel(self->inner_panels, 10 * (double)(self->inner * self->tokens), pack_features, &p);
}

typedef struct unpacking {
    const decoder *self;
    bool add;
    real *dx;
} unpacking;

static void unpack_time(void *data, int64_t t)
{
    const unpacking *u = data;
    const decoder *self = u->self;
    int64_t each = self->features * self->padded;
    for (int64_t i = 0; i < self->features; i++) {
        real *dx = u->dx + (t * self->features + i) * self->n;
        for (int64_t j = 0; j < self->n; j++) {
            int64_t token = t * self->n + j;
            const real *from = self->pull + (token / LA_PANEL * self->features + i) * LA_PANEL + token % LA_PANEL;
            real sum = u->add ? dx[j] : 0;
            for (int64_t part = 0; part < PARTS; part++) sum += from[part * each];
            dx[j] = sum;
        }
    }
}

void decoder_unpack(const decoder *self, bool add, real *dx)
{
    unpacking u = {self, add, dx};
    la_parallel(self->times, 2 * (double)PARTS * (double)(self->features * self->tokens), unpack_time, &u);
}

/* What a part of the work gets. */
typedef struct job {
    const decoder *self;
    psgd_op_call *call;
    decoder_stage stage;
    _Atomic int64_t next; /* part that nobody has taken */
} job;

typedef struct block {
    int64_t number, from, rows; /* words from .. from + rows - 1 */
    int64_t size;               /* elements of a panel */
    const real *W, *tW;         /* its rows */
    real *E, *T;
} block;

static block block_of(const job *work, int64_t number)
{
    const decoder *self = work->self;
    int64_t from = number * BLOCK, rows = self->words - from < BLOCK ? self->words - from : BLOCK;
    const real *tW = TX(work->call, 1);
    return (block){.number = number,
                   .from = from,
                   .rows = rows,
                   .size = rows * LA_PANEL,
                   .W = X(work->call, 1) + from * self->inner,
                   .tW = tW ? tW + from * self->inner : NULL,
                   .E = self->E + from * self->padded,
                   .T = self->T + from * self->padded};
}

/* to[token] <- Z of its label, for the tokens of a panel whose labels are in this block */
static void take_labels(const job *work, const block *b, int64_t panel, const real *Z, real *to)
{
    const real *labels = X(work->call, 2);
    for (int64_t j = panel * LA_PANEL; j < (panel + 1) * LA_PANEL && j < work->self->tokens; j++) {
        int64_t row = (int64_t)labels[j] - b->from;
        if (row >= 0 && row < b->rows) to[j] = Z[row * LA_PANEL + j % LA_PANEL];
    }
}

/* z <- z - c share at those */
static void subtract_labels(const job *work, const block *b, int64_t panel, real c, real *Z)
{
    const real *labels = X(work->call, 2);
    for (int64_t j = panel * LA_PANEL; j < (panel + 1) * LA_PANEL && j < work->self->tokens; j++) {
        int64_t row = (int64_t)labels[j] - b->from;
        if (row >= 0 && row < b->rows) Z[row * LA_PANEL + j % LA_PANEL] -= c * work->self->share[j];
    }
}

static void add_term(la_panel_product *to, int64_t depth, const real *A, const real *B)
{
    int term = to->terms++;
    to->depth[term] = depth;
    to->A[term] = A;
    to->B[term] = B;
}

/* Rows of W times a panel of X, without terms yet. */
static la_panel_product by_rows(const decoder *self, const block *b, real *Z)
{
    return (la_panel_product){.rows = b->rows,
                              .columns = LA_PANEL,
                              .row = self->inner,
                              .column = 1,
                              .b_ld = LA_PANEL,
                              .c_ld = LA_PANEL,
                              .alpha = 1,
                              .C = Z};
}

static void forward_block(const job *work, const block *b, real *Z)
{
    const decoder *self = work->self;
    for (int64_t p = 0; p < self->panels; p++) {
        int64_t at = b->number * self->padded + p * LA_PANEL;
        la_panel_product logits = by_rows(self, b, Z);
        add_term(&logits, self->inner, b->W, self->X + p * self->inner * LA_PANEL);
        la_kernel()->panel_product(&logits);
        take_labels(work, b, p, Z, self->at);
        la_kernel()->panel_exp(b->rows, Z, self->max + at, self->sum + at, b->E + p * b->size);
    }
}

static void tangent_block(const job *work, const block *b, real *Z)
{
    const decoder *self = work->self;
    for (int64_t p = 0; p < self->panels; p++) {
        int64_t at = b->number * self->padded + p * LA_PANEL, x_at = p * self->inner * LA_PANEL;
        la_panel_product tangents = by_rows(self, b, Z);
        if (work->call->input[1].live) add_term(&tangents, self->inner, b->tW, self->X + x_at);
        if (work->call->input[0].live) add_term(&tangents, self->features, b->W, self->tX + x_at);
        tangents.ahead[0] = b->E + p * b->size;
        tangents.ahead_count = b->size;
        la_kernel()->panel_product(&tangents);
        take_labels(work, b, p, Z, self->t_at);
        la_kernel()->panel_spread(b->rows, Z, b->E + p * b->size, self->spread + at, b->T + p * b->size);
    }
}

/* D <- c share (p - onehot) on a panel of a block; with tD, that <- c share p (T - <p, T>) + tc share (p - onehot) */
static void make_D(const job *work, const block *b, int64_t panel, real *D, real *tD)
{
    const decoder *self = work->self;
    real c = DY(work->call)[0], tc = tD ? TDY(work->call)[0] : 0, factor[LA_PANEL], shift[LA_PANEL];
    const real *E = b->E + panel * b->size;
    for (int64_t j = 0; j < LA_PANEL; j++) {
        int64_t token = panel * LA_PANEL + j;
        real share = self->share[token] * self->sum[b->number * self->padded + token];
        factor[j] = c * share;
        shift[j] = tc * share;
    }
    if (tD) {
        la_weights by = {factor, self->mean + panel * LA_PANEL, shift};
        la_kernel()->panel_weigh_both(b->rows, &by, E, b->T + panel * b->size, D, tD);
        subtract_labels(work, b, panel, tc, tD);
    } else {
        la_kernel()->panel_weigh(b->rows, factor, E, D);
    }
    subtract_labels(work, b, panel, c, D);
}

/* Serves both backward passes: of D alone, and of tD together with D. */
typedef struct back {
    bool first;
    real *D, *tD, *pull; /* tD may be NULL */
} back;

static void pull_panel(const job *work, const block *b, const back *to, int64_t panel)
{
    const decoder *self = work->self;
    int64_t at = panel * b->size;
    la_panel_product dX = {.rows = self->features,
                           .columns = LA_PANEL,
                           .row = 1,
                           .column = self->inner,
                           .b_ld = LA_PANEL,
                           .c_ld = LA_PANEL,
                           .alpha = 1,
                           .add = !to->first,
                           .C = to->pull + panel * self->features * LA_PANEL};
    add_term(&dX, b->rows, b->W, (to->tD ? to->tD : to->D) + at);
    if (to->tD && work->call->input[1].live) add_term(&dX, b->rows, b->tW, to->D + at);
    if (panel + 1 < self->panels) {
        dX.ahead[0] = b->E + at + b->size;
        dX.ahead[1] = to->tD ? b->T + at + b->size : NULL;
        dX.ahead_count = b->size;
    }
    la_kernel()->panel_product(&dX);
}

static void weights_panel(const job *work, const block *b, const back *to, int64_t panel)
{
    const decoder *self = work->self;
    int64_t from = panel * LA_PANEL, columns = self->inner - from < LA_PANEL ? self->inner - from : LA_PANEL;
    real *dW = to->tD ? TDX(work->call, 1) : DX(work->call, 1);
    la_panel_product sum = {.rows = b->rows,
                            .columns = columns,
                            .a_panel = b->size,
                            .b_ld = LA_PANEL,
                            .c_ld = self->inner,
                            .alpha = 1,
                            .add = work->call->add[1],
                            .C = dW + b->from * self->inner + from};
    add_term(&sum, self->tokens, to->tD ? to->tD : to->D, self->Xt + from * self->tokens);
    if (to->tD && work->call->input[0].live) add_term(&sum, self->tokens, to->D, self->tXt + from * self->tokens);
    la_kernel()->panel_product(&sum);
}

static void backward_block(const job *work, const block *b, const back *to)
{
    for (int64_t p = 0; p < work->self->panels; p++) {
        make_D(work, b, p, to->D + p * b->size, to->tD ? to->tD + p * b->size : NULL);
        if (work->call->input[0].live) pull_panel(work, b, to, p);
    }
    for (int64_t q = 0; work->call->input[1].live && q < work->self->inner_panels; q++) weights_panel(work, b, to, q);
}

/* The block that a part starts with: eight parts of a tenth, eight of a fiftieth, four of a hundredth. */
static int64_t first_block(const decoder *self, int64_t part)
{
    int64_t hundredths = part < 8 ? 10 * part : part < 16 ? 80 + 2 * (part - 8) : 96 + (part - 16);
    return hundredths * self->blocks / 100;
}

static void run_part(const job *work, int64_t part, real *Z, back to)
{
    const decoder *self = work->self;
    int64_t first = first_block(self, part), end = first_block(self, part + 1), each = self->features * self->padded;
    to.pull = self->pull + part * each;
    if (first == end && work->stage >= BACKWARD) memset(to.pull, 0, (size_t)each * sizeof *to.pull);
    for (int64_t number = first; number < end; number++) {
        block b = block_of(work, number);
        switch (work->stage) {
        case FORWARD:
            forward_block(work, &b, Z);
            break;
        case TANGENT:
            tangent_block(work, &b, Z);
            break;
        case BACKWARD:
        case TANGENT_BACKWARD:
            to.first = number == first;
            backward_block(work, &b, &to);
            break;
        }
    }
}

static void run_lane(void *data, int64_t lane)
{
    job *work = data;
    const decoder *self = work->self;
    int64_t room = BLOCK * self->padded;
    back to = {.D = self->D + lane * room, .tD = work->stage == TANGENT_BACKWARD ? self->tD + lane * room : NULL};
    for (int64_t part; (part = atomic_fetch_add(&work->next, 1)) < PARTS;) {
        run_part(work, part, self->Z + lane * BLOCK * LA_PANEL, to);
    }
}

void decoder_products(const decoder *self, psgd_op_call *call, decoder_stage stage)
{
    job work = {self, call, stage, 0};
    la_parallel(LANES, 2 * (double)self->words * (double)self->tokens * (double)self->inner, run_lane, &work);
}
