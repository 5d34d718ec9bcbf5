/* Binding curvature ranks: what every rank must know of the others, and memory. */
#include "optim/async_worker.h"
#include "optim/curvature/curvature_messages.h"

#include <string.h>

void PSGD_TYPED(psgd__optim_free_curvature)(optim_async *async)
{
    optim_curvature *c = async->curvature;
    const psgd_context *context = async->self->context;
    if (!c) return;
    psgd__free(context, c->kept);
    psgd__free(context, c->memory);
    psgd__free(context, c);
    async->curvature = NULL;
}

/* What this rank can say by itself. */
static psgd_status check(const psgd_optimizer *self, const psgd_comm *all, int curvature_ranks,
                         const psgd_curvature *what)
{
    if (!what || curvature_ranks < 1 || curvature_ranks >= psgd_comm_size(all)) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "bind_curvature needs functions, and at least one rank of each kind: not %d "
                          "curvature ranks of %d",
                          curvature_ranks, psgd_comm_size(all));
    }
    if (!self->async) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "curvature ranks need the option delay, which is 0 here");
    }
    if (!optim_uses_products(self)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "curvature ranks are for criterion newton; fisher takes no "
                                             "Hessian-vector products");
    }
    if (self->async->free) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "option delay-free is for worker threads; leave it out with curvature "
                                                "ranks");
    }
    if (self->async->curvature || self->async->product.product || self->now.step > 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "bind_curvature comes once, before the first step, and without another "
                                             "product");
    }
    int data = psgd_comm_size(all) - curvature_ranks, rank = psgd_comm_rank(all);
    bool serves = rank >= data;
    const psgd_comm *own = self->ranks ? self->ranks->comm : NULL;
    if (psgd_comm_size(own) != (serves ? curvature_ranks : data) ||
        psgd_comm_rank(own) != (serves ? rank - data : rank)) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "the optimizer is over %d ranks, and is number %d of them, where %d data ranks and %d "
                          "curvature ranks, in this order, were to be",
                          psgd_comm_size(own), psgd_comm_rank(own), data, curvature_ranks);
    }
    bool keeps = !serves && what->kept > 0 && what->keep, empty = what->kept == 0;
    if (keeps || (empty && (!serves || what->product))) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "curvature ranks need a product and keep nothing, data ranks need keep where "
                                         "kept is above 0");
}

/* All ranks. Sizes and settings are those of rank 0. */
static psgd_status check_same(const psgd_optimizer *self, psgd_comm *all)
{
    const optim_async *async = self->async;
    const optim_settings *set = &self->settings;
    int64_t own[8] = {self->total,  self->part_count, async->lane_count, async->pairs,
                      async->delay, set->probe,       self->dtype,       set->update_every};
    int64_t first[8];
    memcpy(first, own, sizeof own);
    PSGD_TRY(psgd_comm_broadcast(all, 0, sizeof first, first));
    if (!memcmp(first, own, sizeof own)) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "tensors and options are not those of rank 0; give all ranks the same");
}

/* All ranks. What every data rank keeps and holds. */
static psgd_status share_tables(psgd_optimizer *self, optim_curvature *c)
{
    const optim_async *async = self->async;
    int rank = c->all->rank, lanes = async->lane_count;
    for (int d = 0; d < c->data_ranks; d++) {
        char *holds = c->holds + (int64_t)d * lanes;
        if (d == rank) {
            c->kept[d] = c->bound.kept;
            for (int i = 0; i < lanes; i++) holds[i] = *async->lanes[i].in_force != NULL;
        }
        PSGD_TRY(psgd_comm_broadcast(c->all, d, sizeof c->kept[0], &c->kept[d]));
        PSGD_TRY(psgd_comm_broadcast(c->all, d, lanes, holds));
    }
    return PSGD_OK;
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void place_request(const psgd_optimizer *self, optim_curvature *c)
{
    const optim_async *async = self->async;
    int64_t element = (int64_t)sizeof(real), rows = 0;
    for (int i = 0; i < self->part_count; i++) rows += self->parts[i].rows_max;
    c->at_lanes = sizeof(request_head);
    c->at_present = c->at_lanes + async->lane_count * (int64_t)sizeof(request_lane);
    c->at_rows = c->at_present + async->part_count * (int64_t)sizeof(int64_t);
    c->at_theta = rounded(c->at_rows + rows * (int64_t)sizeof(int64_t));
    c->at_v = rounded(c->at_theta + self->total * element);
    int64_t v = self->settings.probe == PROBE_NORMAL ? 0 : async->pairs * self->total * element;
    c->at_kept = rounded(c->at_v + v);
}

/* Of all requests and replies of a place, on this rank. */
static void count_bytes(const optim_async *async, int64_t *request, int64_t *reply)
{
    const optim_curvature *c = async->curvature;
    const int *all = async->slot_lists; /* zeros: every lane is asked for */
    int rank = c->all->rank;
    *request = c->at_kept + c->bound.kept;
    *reply = c->serves ? 0 : curvature_reply_bytes(async, rank, all);
    for (int d = 0; d < c->data_ranks && c->serves; d++) {
        *request += rounded(curvature_request_bytes(c, d)) - (d == 0 ? c->at_kept : 0);
        if (rank == c->data_ranks) *reply += rounded(curvature_reply_bytes(async, d, all));
    }
}

static psgd_status allocate(const psgd_optimizer *self, optim_curvature *c)
{
    const optim_async *async = self->async;
    int64_t request, reply, lane = 0;
    for (int i = 0; i < async->lane_count; i++) {
        int64_t bytes = curvature_lane_bytes(async, i);
        if (bytes > lane && c->serves) lane = bytes;
    }
    memset(async->slot_lists, 0, (size_t)async->lane_count * sizeof(int));
    place_request(self, c);
    count_bytes(async, &request, &reply);
    request = rounded(request);
    reply = rounded(reply);
    char *at = c->memory = psgd__alloc(self->context, CURVATURE_PLACES * (request + reply) + lane, 1);
    if (!at) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for requests to curvature ranks");
    for (int k = 0; k < CURVATURE_PLACES; k++) {
        c->request[k] = at;
        c->reply[k] = at + request;
        at += request + reply;
    }
    c->lane = at;
    return PSGD_OK;
}

/* Small arrays: what is known of the data ranks, and of the curvature ranks in a request. */
static psgd_status create(psgd_optimizer *self, psgd_comm *all, int curvature_ranks, const psgd_curvature *what)
{
    const optim_async *async = self->async;
    int size = all->size, data = size - curvature_ranks, lanes = async->lane_count;
    optim_curvature *c = psgd__alloc(self->context, 1, sizeof *c);
    int64_t words = 3 * (int64_t)size + lanes;
    int64_t *block = psgd__alloc(self->context, words * (int64_t)sizeof(int64_t) + (int64_t)data * lanes, 1);
    if (!c || !block) {
        psgd__free(self->context, c);
        psgd__free(self->context, block);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %d curvature ranks", curvature_ranks);
    }
    *c = (optim_curvature){.all = all, .data_ranks = data, .serves = all->rank >= data, .bound = *what, .kept = block};
    c->codes = block + size;
    c->kept_list = (const void **)(void *)(block + 2 * (int64_t)size);
    c->fitted = (double *)(void *)(block + 3 * (int64_t)size);
    c->holds = (char *)(block + words);
    self->async->curvature = c;
    return PSGD_OK;
}

/* Data ranks need no copy of Q to fit, nor v and h; curvature ranks need those of one request. */
static psgd_status replace_workers(psgd_optimizer *self)
{
    optim_async *async = self->async;
    bool rows = false;
    psgd__async_join_workers(async);
    psgd_delayed_product own = {.product = curvature_product, .data = async};
    if (async->curvature->serves) {
        PSGD_TRY(psgd__async_allocate(self));
        return psgd__async_set_product(self, &own);
    }
    async->product = own;
    for (int i = 0; i < self->part_count; i++) rows |= self->parts[i].rows_max > 0;
    for (int i = 0; i < async->lane_count; i++) {
        psgd_precond_free(async->lanes[i].fit);
        async->lanes[i].fit = NULL;
    }
    if (rows) return PSGD_OK; /* whose lists are there */
    psgd__free(self->context, async->arrays);
    async->arrays = NULL;
    return PSGD_OK;
}

psgd_status PSGD_TYPED(psgd__optim_bind_curvature)(psgd_optimizer *self, psgd_comm *all, int curvature_ranks,
                                                   const psgd_curvature *curvature)
{
    PSGD_TRY(psgd_comm_agree(all, check(self, all, curvature_ranks, curvature)));
    PSGD_TRY(psgd_comm_agree(all, check_same(self, all)));
    PSGD_TRY(psgd_comm_agree(all, create(self, all, curvature_ranks, curvature)));
    PSGD_TRY(share_tables(self, self->async->curvature));
    psgd_status status = allocate(self, self->async->curvature);
    if (status == PSGD_OK) status = replace_workers(self);
    return psgd_comm_agree(all, status);
}
