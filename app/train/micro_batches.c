#include "train/micro_batches.h"
#include "train/trainer.h"

#include <string.h>

#include "core/memory.h"

enum { MAX_DEPTH = 24 };

struct micro_batches {
    int64_t first, own; /* this rank's */
    bool averages;      /* the state is one for all of them */
    char *memory;
    void *gradient[MAX_DEPTH], *h[MAX_DEPTH], *mean[MAX_DEPTH]; /* partial sums */
    int64_t stride;                                             /* bytes of the state of a micro-batch, at most */
    char *state, *next;                                         /* [own][stride]; averages: [stride] */
    char *all;                                                  /* the state of the whole batch */
    int64_t all_bytes, *counts;                                 /* [ranks] bytes of all */
};

static int64_t state_bytes(const trainer *self, const train_graph *g)
{
    return psgd_graph_state(g->graph, NULL) * (int64_t)psgd_dtype_size(self->config.dtype);
}

static void *graph_state(const train_graph *g)
{
    void *state = NULL;
    psgd_graph_state(g->graph, &state);
    return state;
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Partial sums of gradient and h, where this rank has more than one term. */
static double sums_bytes(const trainer *self, int64_t own)
{
    int depth = own > 1 ? psgd_tree_depth(own) : 0;
    bool products = psgd_optimizer_uses_products(self->optimizer);
    double slab = (double)rounded(self->parameters * (int64_t)psgd_dtype_size(self->config.dtype));
    return depth * slab * (double)(1 + (products ? self->pairs : 0));
}

double psgd__micro_memory(const trainer *self)
{
    int64_t first, own;
    if (self->config.settings.micro_batches == 1) return 0;
    psgd__task_own(&self->config, &first, &own);
    return sums_bytes(self, own) + 3 * (double)(own * state_bytes(self, &self->task->full));
}

static char *take(char **at, int64_t bytes)
{
    char *here = *at;
    *at += rounded(bytes);
    return here;
}

/* Bytes of the state of every rank's micro-batches, one after the other. */
static void count_state(const trainer *self, micro_batches *m)
{
    int64_t pieces = self->config.settings.micro_batches, ranks = psgd_comm_size(self->config.comm);
    for (int64_t i = 0; i < pieces && !m->averages; i++) {
        task_piece piece = psgd__task_piece(self->task, i);
        m->counts[i / (pieces / ranks)] += state_bytes(self, piece.full);
    }
    for (int64_t r = 0; r < ranks; r++) m->all_bytes += m->counts[r];
}

static psgd_status build(const trainer *self, micro_batches *m)
{
    int64_t element = (int64_t)psgd_dtype_size(self->config.dtype);
    int depth = psgd_tree_depth(m->own);
    if (depth > MAX_DEPTH) return psgd__fail(PSGD_ERR_UNSUPPORTED, "more than 2^%d micro-batches", MAX_DEPTH - 1);
    m->counts = psgd__alloc(self->context, psgd_comm_size(self->config.comm), sizeof *m->counts);
    if (!m->counts) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for micro-batches");
    m->averages = !self->config.kind->text;
    m->stride = self->task->carries ? rounded(state_bytes(self, &self->task->full)) : 0;
    if (self->task->carries) count_state(self, m);
    bool products = psgd_optimizer_uses_products(self->optimizer), adds = m->own > 1;
    int64_t states = m->averages ? 1 : m->own;
    int64_t slab = rounded(self->parameters * element),
            h = products ? rounded(self->pairs * self->parameters * element) : 0;
    int64_t bytes = (adds ? depth * (slab + h) : 0) + depth * m->stride + 2 * states * m->stride +
                    rounded(m->all_bytes);
    char *at = m->memory = psgd__alloc(self->context, bytes, 1);
    if (!at) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the sums of %lld micro-batches", (long long)m->own);
    for (int k = 0; k < depth; k++) {
        if (adds) m->gradient[k] = take(&at, slab);
        if (adds) m->h[k] = take(&at, h);
        m->mean[k] = take(&at, m->stride);
    }
    m->state = take(&at, states * m->stride);
    m->next = take(&at, states * m->stride);
    m->all = at;
    return PSGD_OK;
}

psgd_status psgd__micro_create(const trainer *self, micro_batches **created)
{
    if (self->config.settings.micro_batches == 1) return PSGD_OK;
    micro_batches *m = *created = psgd__alloc(self->context, 1, sizeof *m);
    if (!m) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for micro-batches");
    psgd__task_own(&self->config, &m->first, &m->own);
    return build(self, m);
}

void psgd__micro_free(const trainer *self, micro_batches *m)
{
    if (!m) return;
    psgd__free(self->context, m->memory);
    psgd__free(self->context, m->counts);
    psgd__free(self->context, m);
}

static void scale(const trainer *self, int64_t count, double factor, void *x)
{
    if (self->config.dtype == PSGD_F64) {
        for (int64_t i = 0; i < count; i++) ((double *)x)[i] *= factor;
    } else {
        for (int64_t i = 0; i < count; i++) ((float *)x)[i] *= (float)factor;
    }
}

static char *at_state(const micro_batches *m, char *states, int64_t i)
{
    return states + (m->averages ? 0 : i) * m->stride;
}

/* Keeps the state in which a run ended: its own, or what it adds to the average. */
static void keep_state(const trainer *self, int64_t i, const task_piece *piece)
{
    micro_batches *m = self->micro;
    psgd_graph_carry(piece->full->graph);
    void *state = graph_state(piece->full);
    int64_t bytes = state_bytes(self, piece->full), count = psgd_graph_state(piece->full->graph, NULL);
    if (!m->averages) {
        memcpy(at_state(m, m->next, i), state, (size_t)bytes);
        return;
    }
    scale(self, count, piece->weight, state);
    psgd_tree_add(self->config.dtype, count, i, state, m->mean);
    if (i + 1 < m->own) return;
    psgd_tree_end(self->config.dtype, count, m->own, m->mean);
    memcpy(m->next, m->mean[0], (size_t)bytes);
}

static void add(const trainer *self, int64_t i, int64_t count, double weight, void *term, void *const *part)
{
    micro_batches *m = self->micro;
    size_t bytes = (size_t)count * psgd_dtype_size(self->config.dtype);
    scale(self, count, weight, term);
    if (m->own == 1) return;
    psgd_tree_add(self->config.dtype, count, i, term, part);
    if (i + 1 < m->own) return;
    psgd_tree_end(self->config.dtype, count, m->own, part);
    memcpy(term, part[0], bytes);
}

/* Elements from .. from + count - 1 of term. */
static void add_range(const trainer *self, int64_t i, int64_t from, int64_t count, double weight, char *term,
                      void *const *part)
{
    int64_t at = from * (int64_t)psgd_dtype_size(self->config.dtype);
    void *ranges[MAX_DEPTH] = {NULL};
    for (int k = 0; k < MAX_DEPTH && part[k]; k++) ranges[k] = (char *)part[k] + at;
    add(self, i, count, weight, term + at, ranges);
}

/* The last micro-batch of this rank, whose gradients complete the sums of the others. */
typedef struct last_one {
    trainer *self;
    const task_piece *piece;
    int64_t h_size;
} last_one;

/* Before the first gradient all ranks know that none of them has failed: what is ready then will be summed. */
static psgd_status on_final(void *data, int parameter)
{
    const last_one *last = data;
    trainer *self = last->self;
    micro_batches *m = self->micro;
    if (parameter < 0) {
        self->agreed = true;
        return psgd_comm_agree(self->config.comm, PSGD_OK);
    }
    const psgd_graph *graph = last->piece->full->graph;
    const int64_t *shape = psgd_graph_parameter_shape(graph, parameter);
    int64_t from = psgd_graph_parameter_offset(graph, parameter), count = shape[0] * shape[1];
    add_range(self, m->own - 1, from, count, last->piece->weight, self->gradient, m->gradient);
    if (last->h_size > 0) add_range(self, m->own - 1, from, count, last->piece->hv_weight, self->h, m->h);
    return psgd_optimizer_ready(self->optimizer, parameter, self->gradient_list[parameter],
                                last->h_size > 0 ? self->h_list[parameter] : NULL);
}

/* Its run, and what is added by the way. */
static psgd_status run_last(trainer *self, micro_run run, const task_piece *piece, const void *theta, const void *v,
                            int64_t h_size, double *loss)
{
    last_one last = {self, piece, h_size};
    PSGD_TRY(psgd_graph_on_final(piece->full->graph, on_final, &last));
    psgd_status status = run(self, piece, theta, v, loss);
    psgd_graph_on_final(piece->full->graph, NULL, NULL);
    return status;
}

psgd_status psgd__micro_evaluate(trainer *self, micro_run run, const void *theta, const void *v, int64_t h_size,
                                 double *loss)
{
    micro_batches *m = self->micro;
    task *t = self->task;
    uint64_t seed = (uint64_t)self->config.settings.seed;
    double losses[MAX_DEPTH];
    void *loss_part[MAX_DEPTH];
    if (!m) {
        task_piece whole = psgd__task_piece(t, 0);
        return run(self, &whole, theta, v, loss);
    }
    for (int k = 0; k < MAX_DEPTH; k++) loss_part[k] = &losses[k];
    for (int64_t i = 0; i < m->own; i++) {
        task_piece piece = psgd__task_piece(t, m->first + i);
        uint64_t step = (uint64_t)(self->now.step * self->config.settings.micro_batches + piece.index);
        double own;
        if (t->carries) {
            memcpy(graph_state(piece.full), at_state(m, m->state, i), (size_t)state_bytes(self, piece.full));
        }
        PSGD_TRY(t->ops->load(t, self->now.step, &piece));
        psgd_graph_set_step(piece.full->graph, seed, step);
        psgd_graph_set_step(piece.part->graph, seed, step);
        bool last = self->overlaps && i + 1 == m->own;
        PSGD_TRY(last ? run_last(self, run, &piece, theta, v, h_size, &own) : run(self, &piece, theta, v, &own));
        own *= piece.weight;
        psgd_tree_add(PSGD_F64, 1, i, &own, loss_part);
        if (!last) add(self, i, self->parameters, piece.weight, self->gradient, m->gradient);
        if (!last && h_size > 0) add(self, i, h_size, piece.hv_weight, self->h, m->h);
        if (t->carries) keep_state(self, i, &piece);
    }
    psgd_tree_end(PSGD_F64, 1, m->own, loss_part);
    *loss = losses[0];
    return PSGD_OK;
}

/* Evaluations take moving averages from the graphs. */
static void spread_average(trainer *self)
{
    micro_batches *m = self->micro;
    task *t = self->task;
    memcpy(graph_state(&t->full), m->state, (size_t)state_bytes(self, &t->full));
}

psgd_status psgd__micro_carry(trainer *self)
{
    micro_batches *m = self->micro;
    task *t = self->task;
    if (!t->carries) return PSGD_OK;
    if (!m) {
        psgd_graph_carry(t->full.graph);
        return PSGD_OK;
    }
    char *before = m->state;
    m->state = m->next;
    m->next = before;
    if (!m->averages) return PSGD_OK;
    PSGD_TRY(psgd_comm_sum(self->config.comm, self->config.dtype, psgd_graph_state(t->full.graph, NULL), m->state));
    spread_average(self);
    return PSGD_OK;
}

/* The states of this rank's micro-batches, one after the other. */
static void pack_states(const trainer *self, char *to)
{
    const micro_batches *m = self->micro;
    for (int64_t i = 0; i < m->own; i++) {
        task_piece piece = psgd__task_piece(self->task, m->first + i);
        memcpy(to, at_state(m, m->state, i), (size_t)state_bytes(self, piece.full));
        to += state_bytes(self, piece.full);
    }
}

psgd_status psgd__micro_state(const trainer *self, void **state, int64_t *bytes)
{
    const micro_batches *m = self->micro;
    *state = m && m->all_bytes ? m->all : graph_state(&self->task->full);
    *bytes = m && m->all_bytes ? m->all_bytes : state_bytes(self, &self->task->full);
    if (!m || !m->all_bytes) return PSGD_OK;
    char *at = m->all;
    for (int r = 0; r < psgd_comm_rank(self->config.comm); r++) at += m->counts[r];
    pack_states(self, at);
    return psgd_comm_share(self->config.comm, 1, m->counts, m->all);
}

void psgd__micro_set_state(trainer *self, const void *state)
{
    micro_batches *m = self->micro;
    if (!m || !m->all_bytes)
        memcpy(graph_state(&self->task->full), state, (size_t)state_bytes(self, &self->task->full));
    if (m && m->averages && m->stride) memcpy(m->state, state, (size_t)state_bytes(self, &self->task->full));
    if (!m || !m->all_bytes) return;
    const char *at = state;
    for (int r = 0; r < psgd_comm_rank(self->config.comm); r++) at += m->counts[r];
    for (int64_t i = 0; i < m->own; i++) {
        task_piece piece = psgd__task_piece(self->task, m->first + i);
        memcpy(at_state(m, m->state, i), at, (size_t)state_bytes(self, piece.full));
        at += state_bytes(self, piece.full);
    }
}

int64_t psgd__micro_own_bytes(const trainer *self)
{
    const micro_batches *m = self->micro;
    int rank = psgd_comm_rank(self->config.comm);
    if (!self->task->carries) return 0;
    if (m && m->all_bytes) return m->counts[rank];
    return rank == 0 ? state_bytes(self, &self->task->full) : 0;
}

void psgd__micro_own_state(const trainer *self, char *to)
{
    const micro_batches *m = self->micro;
    if (psgd__micro_own_bytes(self) == 0) return;
    if (m && m->all_bytes) {
        pack_states(self, to);
    } else {
        memcpy(to, m ? m->state : graph_state(&self->task->full), (size_t)state_bytes(self, &self->task->full));
    }
}

void psgd__micro_join_states(trainer *self, const void *const *parts, int64_t at)
{
    const micro_batches *m = self->micro;
    if (!self->task->carries) return;
    if (!m || !m->all_bytes) {
        psgd__micro_set_state(self, (const char *)parts[0] + at);
        return;
    }
    int ranks = psgd_comm_size(self->config.all) - self->config.curvature_ranks;
    int64_t pieces = self->config.settings.micro_batches;
    char *to = m->all;
    for (int d = 0; d < ranks; d++) {
        const char *from = (const char *)parts[d] + at;
        for (int64_t i = 0; i < pieces / ranks; i++) {
            int64_t bytes = state_bytes(self, psgd__task_piece(self->task, d * (pieces / ranks) + i).full);
            memcpy(to, from, (size_t)bytes);
            to += bytes;
            from += bytes;
        }
    }
    psgd__micro_set_state(self, m->all);
}
