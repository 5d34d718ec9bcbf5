#include "train/delayed.h"
#include "train/trainer.h"

#include <string.h>

#include "core/memory.h"

/* What a product needs of its step. */
typedef struct kept_batch {
    char *x, *y, *state;
    uint64_t step;
} kept_batch;

struct delayed_products {
    trainer *self;
    int workers;
    train_graph *graphs; /* [workers] */
    char **gradients;    /* [workers] that nobody reads */
    kept_batch *kept;    /* [slots] */
    char *memory;
    int64_t x_bytes, y_bytes, state_bytes;
};

static bool applies(const trainer *self)
{
    return psgd_optimizer_workers(self->optimizer) > 0 && psgd_optimizer_uses_products(self->optimizer) &&
           !self->by_closure && self->config.settings.micro_batches == 1 && psgd_comm_size(self->config.comm) == 1 &&
           !self->config.all;
}

/* The graph whose samples Hv is taken on. */
static const train_graph *source_of(const trainer *self)
{
    return self->task->part.graph ? &self->task->part : &self->task->full;
}

static int64_t node_bytes(const trainer *self, psgd_node node)
{
    const int64_t *shape;
    int ndim = psgd_graph_shape(source_of(self)->graph, node, &shape);
    int64_t bytes = (int64_t)psgd_dtype_size(self->config.dtype);
    for (int k = 0; k < ndim; k++) bytes *= shape[k];
    return bytes;
}

static int64_t state_bytes(const trainer *self)
{
    if (!self->task->carries) return 0;
    return psgd_graph_state(source_of(self)->graph, NULL) * (int64_t)psgd_dtype_size(self->config.dtype);
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int64_t slab_bytes(const trainer *self)
{
    return rounded(self->parameters * (int64_t)psgd_dtype_size(self->config.dtype));
}

static int64_t kept_bytes(const trainer *self)
{
    const train_graph *source = source_of(self);
    return rounded(node_bytes(self, source->nodes.x)) + rounded(node_bytes(self, source->nodes.y)) +
           rounded(state_bytes(self));
}

/* Besides what is here: theta of each slot and v, h and a gradient of each worker, which are the optimizer's. */
double psgd__delayed_memory(const trainer *self)
{
    if (!self->optimizer || !applies(self)) return 0;
    double workers = psgd_optimizer_workers(self->optimizer), slots = psgd_optimizer_slots(self->optimizer);
    double graph = (double)psgd_graph_resident_bytes(source_of(self)->graph, true, true);
    return workers * (graph + 4 * (double)slab_bytes(self)) +
           slots * ((double)kept_bytes(self) + (double)(1 + 2 * self->pairs) * (double)slab_bytes(self));
}

static int keep(void *data, int slot)
{
    delayed_products *d = data;
    const trainer *self = d->self;
    const train_graph *source = source_of(self);
    kept_batch *kept = &d->kept[slot];
    void *state;
    kept->step = (uint64_t)self->now.step;
    memcpy(kept->x, psgd_graph_values(source->graph, source->nodes.x), (size_t)d->x_bytes);
    memcpy(kept->y, psgd_graph_values(source->graph, source->nodes.y), (size_t)d->y_bytes);
    if (d->state_bytes == 0) return 0;
    psgd__task_share_state(self->task, &self->task->full, source);
    psgd_graph_state(source->graph, &state);
    memcpy(kept->state, state, (size_t)d->state_bytes);
    return 0;
}

static int product(void *data, int slot, int worker, const void *const *theta, const void *const *v, void *const *h)
{
    delayed_products *d = data;
    const train_graph *own = &d->graphs[worker];
    const kept_batch *kept = &d->kept[slot];
    void *state;
    double loss;
    memcpy(psgd_graph_values(own->graph, own->nodes.x), kept->x, (size_t)d->x_bytes);
    memcpy(psgd_graph_values(own->graph, own->nodes.y), kept->y, (size_t)d->y_bytes);
    if (d->state_bytes > 0) {
        psgd_graph_state(own->graph, &state);
        memcpy(state, kept->state, (size_t)d->state_bytes);
    }
    psgd_graph_set_step(own->graph, (uint64_t)d->self->config.settings.seed, kept->step);
    return (int)psgd_graph_hessian(own->graph, theta[0], v[0], d->gradients[worker], h[0], &loss);
}

static psgd_status allocate(const trainer *self, delayed_products *d)
{
    int workers = d->workers, slots = psgd_optimizer_slots(self->optimizer);
    const train_graph *source = source_of(self);
    d->x_bytes = node_bytes(self, source->nodes.x);
    d->y_bytes = node_bytes(self, source->nodes.y);
    d->state_bytes = state_bytes(self);
    d->graphs = psgd__alloc(self->context, workers, sizeof *d->graphs);
    d->gradients = psgd__alloc(self->context, workers, sizeof *d->gradients);
    d->kept = psgd__alloc(self->context, slots, sizeof *d->kept);
    d->memory = psgd__alloc(self->context, slots * kept_bytes(self) + workers * slab_bytes(self), 1);
    if (!d->graphs || !d->gradients || !d->kept || !d->memory) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the batches of pairs in flight");
    }
    char *at = d->memory;
    for (int k = 0; k < slots; k++) {
        d->kept[k] = (kept_batch){.x = at, .y = at + rounded(d->x_bytes)};
        d->kept[k].state = d->kept[k].y + rounded(d->y_bytes);
        at += kept_bytes(self);
    }
    for (int w = 0; w < workers; w++, at += slab_bytes(self)) d->gradients[w] = at;
    return PSGD_OK;
}

/* A graph like the one that Hv is taken on. */
static psgd_status build_graphs(const trainer *self, delayed_products *d)
{
    const train_graph *source = source_of(self);
    bool rows = false;
    for (int i = 0; i < self->tensors; i++) rows = rows || psgd_graph_max_rows(source->graph, i) > 0;
    for (int w = 0; w < d->workers; w++) {
        PSGD_TRY(psgd__task_graph(self->task, source->n, true, rows, &d->graphs[w]));
    }
    return PSGD_OK;
}

psgd_status psgd__delayed_create(trainer *self, delayed_products **created)
{
    if (!applies(self)) return PSGD_OK;
    delayed_products *d = *created = psgd__alloc(self->context, 1, sizeof *d);
    if (!d) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the products of workers");
    d->self = self;
    d->workers = psgd_optimizer_workers(self->optimizer);
    PSGD_TRY(allocate(self, d));
    PSGD_TRY(build_graphs(self, d));
    psgd_delayed_product own = {.keep = keep, .product = product, .data = d};
    return psgd_optimizer_bind_product(self->optimizer, &own);
}

void psgd__delayed_free(const trainer *self, delayed_products *d)
{
    if (!d) return;
    for (int w = 0; d->graphs && w < d->workers; w++) psgd_graph_free(d->graphs[w].graph);
    psgd__free(self->context, d->graphs);
    psgd__free(self->context, d->gradients);
    psgd__free(self->context, d->kept);
    psgd__free(self->context, d->memory);
    psgd__free(self->context, d);
}
