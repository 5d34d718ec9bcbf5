/* The memory of asynchronous fits: lanes with their slots, and what products on the workers need, those of the caller
 * or of a bound objective. */
#include "optim/async_worker.h"
#include "optim/optim.h"

#include <string.h>

static psgd_status no_memory(int64_t delay)
{
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the pairs in flight with a delay of %lld", (long long)delay);
}

/* Pairs of a tensor are update-every of its steps apart, so this many are in flight at most. */
static int slots_for(const psgd_optimizer *self)
{
    int64_t every = self->settings.update_every;
    if (self->undecided && self->with_products.update_every < every) every = self->with_products.update_every;
    return (int)((self->settings.delay + every - 1) / every);
}

psgd_status psgd__async_create(psgd_optimizer *self, int tensor_count)
{
    const optim_settings *set = &self->settings;
    const psgd_context *context = self->context;
    if (!self->kind->fits || set->delay == 0) return PSGD_OK;
    optim_async *async = self->async = psgd__alloc(context, 1, sizeof *async);
    if (!async) return no_memory(set->delay);
    async->self = self;
    async->delay = set->delay;
    async->free = set->delay_free;
    async->part_count = tensor_count;
    async->lane_count = set->joint ? 1 : tensor_count;
    async->slot_count = slots_for(self);
    async->worker_count = (int)set->workers;
    async->request_count = (int)set->delay + 1;
    async->work = (workspace){.context = context, .slices = (int)set->worker_threads};
    async->first_tensor = set->first_tensor;
    async->l2 = set->l2;
    psgd__async_decide(self);
    if (self->undecided && self->with_products.fit.pairs > async->pairs) async->pairs = self->with_products.fit.pairs;

    int lanes = async->lane_count, requests = async->request_count;
    async->lanes = psgd__alloc(context, lanes, sizeof *async->lanes);
    async->parts = psgd__alloc(context, tensor_count, sizeof *async->parts);
    async->workers = psgd__alloc(context, async->worker_count, sizeof *async->workers);
    async->requests = psgd__alloc(context, requests, sizeof *async->requests);
    async->slot_lists = psgd__alloc(context, (int64_t)requests * lanes, sizeof(int));
    async->present_lists = psgd__alloc(context, (int64_t)requests * tensor_count, sizeof(bool));
    async->busy = psgd__alloc(context, async->slot_count, sizeof(bool));
    if (!async->lanes || !async->parts || !async->workers || !async->requests || !async->slot_lists ||
        !async->present_lists || !async->busy) {
        return no_memory(set->delay);
    }
    for (int i = 0; i < lanes; i++) {
        async_lane *lane = &async->lanes[i];
        lane->in_force = set->joint ? &self->joint : &self->parts[i].precond;
        lane->slots = psgd__alloc(context, async->slot_count, sizeof *lane->slots);
        if (!lane->slots) return no_memory(set->delay);
    }
    for (int r = 0; r < requests; r++) {
        async->requests[r].slot = async->slot_lists + (int64_t)r * lanes;
        async->requests[r].present = async->present_lists + (int64_t)r * tensor_count;
    }
    for (int w = 0; w < async->worker_count; w++) {
        async->workers[w] = (async_worker){.async = async, .index = w};
        async->workers[w].pool = la_pool_create(context, (int)set->worker_threads);
        if (!async->workers[w].pool) return no_memory(set->delay);
    }
    return PSGD_OK;
}

void psgd__async_decide(psgd_optimizer *self)
{
    optim_async *async = self->async;
    if (!async) return;
    const precond_settings *fit = &self->settings.fit;
    async->newton = fit->criterion == CRITERION_NEWTON;
    async->joint = self->settings.joint; /* self->joint moves while workers read this */
    async->pairs = fit->pairs;
    async->integrate = fit->integrate;
    for (int i = 0; i < async->lane_count && async->lanes; i++) {
        async_lane *lane = &async->lanes[i];
        for (int k = -1; lane->fit && k < async->slot_count; k++) {
            psgd_precond *p = k < 0 ? lane->fit : lane->slots[k].result;
            p->settings.criterion = fit->criterion;
            p->settings.damping = fit->damping;
            p->settings.step = fit->step;
        }
    }
}

/* A preconditioner like the one in force: for a slot, where the caller works with it later, or for the workers. */
static psgd_status create_copy(psgd_optimizer *self, const psgd_precond *like, int ndim, const int64_t *shape,
                               const precond_settings *settings, const precond_segments *segments, workspace *work,
                               psgd_precond **made)
{
    precond_segments own = {0};
    if (segments) {
        own = (precond_segments){.count = segments->count};
        own.sizes = psgd__alloc(self->context, own.count, sizeof *own.sizes);
        if (!own.sizes) return no_memory(self->settings.delay);
        memcpy(own.sizes, segments->sizes, (size_t)own.count * sizeof *own.sizes);
    }
    PSGD_TRY(psgd__precond_create(self->context, like->spec, ndim, shape, self->dtype, settings, work,
                                  segments ? &own : NULL, made));
    (*made)->vouched = true;
    return PSGD_OK;
}

psgd_status psgd__async_lane(psgd_optimizer *self, int index, int ndim, const int64_t *shape,
                             const precond_settings *settings, const precond_segments *segments)
{
    optim_async *async = self->async;
    if (!async) return PSGD_OK;
    async_lane *lane = &async->lanes[index];
    for (int k = 0; k < async->slot_count; k++) {
        PSGD_TRY(
            create_copy(self, *lane->in_force, ndim, shape, settings, segments, &self->work, &lane->slots[k].result));
    }
    return create_copy(self, *lane->in_force, ndim, shape, settings, NULL, &async->work, &lane->fit);
}

psgd_status psgd__async_allocate(psgd_optimizer *self)
{
    optim_async *async = self->async;
    int slots = async->curvature ? 1 : async->slot_count;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype), bytes = 0;
    for (int pass = 0; pass < 2; pass++) {
        char *at = async->arrays;
        for (int i = 0; i < async->lane_count; i++) {
            async_lane *lane = &async->lanes[i];
            const part *p = &self->parts[i];
            if (!lane->fit && !async->curvature) continue;
            int64_t rows = self->settings.joint ? 0 : p->rows_max, each;
            lane->room = self->settings.joint ? self->total : rows > 0 ? rows * psgd__part_width(p) : p->n;
            if (!psgd__mul_fits(lane->room, async->pairs, &lane->room) || !psgd__mul_fits(lane->room, element, &each) ||
                !psgd__add_fits(each, 63, &each)) {
                return no_memory(async->delay);
            }
            each = each / 64 * 64;
            int64_t list = (rows * (int64_t)sizeof(int64_t) + 63) / 64 * 64;
            for (int k = 0; k < slots; k++) {
                async_slot *slot = &lane->slots[k];
                if (pass == 0) {
                    if (!psgd__add_fits(bytes, 2 * each + list, &bytes)) return no_memory(async->delay);
                    continue;
                }
                slot->v = at;
                slot->h = at + each;
                slot->index = (int64_t *)(void *)(at + 2 * each);
                at += 2 * each + list;
            }
        }
        if (pass == 1) break;
        psgd__free(self->context, async->arrays);
        async->arrays = psgd__alloc(self->context, bytes, 1);
        if (!async->arrays) return no_memory(async->delay);
    }
    return PSGD_OK;
}

psgd_status psgd__async_start(psgd_optimizer *self)
{
    optim_async *async = self->async;
    if (!async) return PSGD_OK;
    PSGD_TRY(psgd__work_commit(&async->work));
    PSGD_TRY(psgd__async_allocate(self));
    for (int i = 0; i < async->part_count; i++) {
        const part *p = &self->parts[i];
        async->parts[i] = (async_part){.n = p->n, .from = p->from, .width = psgd__part_width(p)};
    }
    return psgd__async_start_workers(async);
}

void psgd__async_free(psgd_optimizer *self)
{
    optim_async *async = self->async;
    const psgd_context *context = self->context;
    if (!async) return;
    if (async->workers) psgd__async_stop_workers(async);
    OPTIM_CALL(self, free_curvature, async);
    for (int i = 0; i < async->lane_count && async->lanes; i++) {
        async_lane *lane = &async->lanes[i];
        for (int k = 0; k < async->slot_count && lane->slots; k++) psgd_precond_free(lane->slots[k].result);
        psgd_precond_free(lane->fit);
        psgd__free(context, lane->slots);
    }
    for (int w = 0; w < async->worker_count && async->workers; w++) la_pool_free(async->workers[w].pool);
    psgd__work_free(&async->work);
    psgd__free(context, async->lanes);
    psgd__free(context, async->parts);
    psgd__free(context, async->workers);
    psgd__free(context, async->requests);
    psgd__free(context, async->slot_lists);
    psgd__free(context, async->present_lists);
    psgd__free(context, async->busy);
    psgd__free(context, async->arrays);
    psgd__free(context, async->copies);
    psgd__free(context, async);
    self->async = NULL;
}

int psgd_optimizer_slots(const psgd_optimizer *self)
{
    return self && self->async ? self->async->slot_count : 0;
}

int psgd_optimizer_workers(const psgd_optimizer *self)
{
    return self && self->async ? self->async->worker_count : 0;
}

/* Theta for each slot; v, h and, for an objective, a gradient for each worker. */
static psgd_status allocate_copies(psgd_optimizer *self)
{
    optim_async *async = self->async;
    enum { OF_WORKER = 3 };
    int64_t element = (int64_t)psgd_dtype_size(self->dtype), slab, lists, bytes;
    int64_t count = async->slot_count + OF_WORKER * (int64_t)async->worker_count, parts = async->part_count;
    int64_t pointers = async->slot_count + count * parts;
    bool fits = psgd__mul_fits(self->total, element, &slab) && psgd__add_fits(slab, 63, &slab) &&
                psgd__mul_fits(slab / 64 * 64, count, &bytes);
    slab = slab / 64 * 64;
    lists = (pointers * (int64_t)sizeof(void *) + 63) / 64 * 64;
    char *block = fits && psgd__add_fits(bytes, lists, &bytes) ? psgd__alloc(self->context, bytes, 1) : NULL;
    if (!block) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the copies of theta that products need");
    psgd__free(self->context, async->copies);
    async->copies = block;
    async->theta = (void ***)(void *)block;
    void **list = (void **)(void *)block + async->slot_count;
    char *array = block + lists;
    for (int64_t k = 0; k < count; k++, list += parts, array += slab) {
        for (int i = 0; i < parts; i++) list[i] = array + async->parts[i].from * element;
        if (k < async->slot_count) {
            async->theta[k] = list;
            continue;
        }
        async_worker *worker = &async->workers[(k - async->slot_count) / OF_WORKER];
        void ***own[OF_WORKER] = {&worker->v, &worker->h, &worker->gradient};
        *own[(k - async->slot_count) % OF_WORKER] = list;
    }
    return PSGD_OK;
}

static psgd_status refuse_besides_curvature(const char *function)
{
    return psgd__fail(PSGD_ERR_UNSUPPORTED, "%s: products are those of the curvature ranks", function);
}

psgd_status psgd_optimizer_bind_product(psgd_optimizer *self, const psgd_delayed_product *product)
{
    if (!self || !product || !product->product) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "bind_product needs an optimizer and a product");
    }
    if (!self->async) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "products are the workers' with the option delay only, which is 0 here");
    }
    if (!optim_uses_products(self)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "criterion fisher takes no Hessian-vector products");
    }
    if (self->ranks) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "over several ranks products are sums, which the caller makes; workers fit alone, or "
                          "curvature ranks do both (psgd_optimizer_bind_curvature)");
    }
    if (self->async->curvature) return refuse_besides_curvature("psgd_optimizer_bind_product");
    PSGD_TRY(psgd__async_drain(self));
    return psgd__async_set_product(self, product);
}

psgd_status psgd__async_set_product(psgd_optimizer *self, const psgd_delayed_product *product)
{
    PSGD_TRY(allocate_copies(self));
    self->async->product = *product;
    self->async->of_objective = false;
    return PSGD_OK;
}

static int evaluate_objective(void *data, int slot, int worker, const void *const *theta, const void *const *v,
                              void *const *h)
{
    const optim_async *async = data;
    const psgd_objective *objective = &async->self->objective;
    double loss;
    (void)slot;
    return objective->product(objective->data, theta, v, &loss, async->workers[worker].gradient, h);
}

psgd_status psgd__async_bind_objective(psgd_optimizer *self)
{
    bool can = self->async && optim_uses_products(self) && !self->ranks;
    if (self->async && self->async->curvature) return refuse_besides_curvature("psgd_optimizer_bind");
    if (can && self->objective.product) {
        psgd_delayed_product product = {.product = evaluate_objective, .data = self->async};
        PSGD_TRY(psgd_optimizer_bind_product(self, &product));
        self->async->of_objective = true;
        return PSGD_OK;
    }
    if (self->async) self->async->product = (psgd_delayed_product){0};
    return PSGD_OK;
}

static psgd_status needs_optimizer(const char *function)
{
    return psgd__fail(PSGD_ERR_ARGUMENT, "%s needs an optimizer", function);
}

psgd_status psgd_optimizer_bind_curvature(psgd_optimizer *self, psgd_comm *all, int curvature_ranks,
                                          const psgd_curvature *curvature)
{
    if (!self) return psgd_comm_agree(all, needs_optimizer("bind_curvature"));
    return OPTIM_CALL(self, bind_curvature, self, all, curvature_ranks, curvature);
}

psgd_status psgd_optimizer_serve_curvature(psgd_optimizer *self)
{
    return self ? OPTIM_CALL(self, serve_curvature, self) : needs_optimizer("serve_curvature");
}

psgd_status psgd_optimizer_end_curvature(psgd_optimizer *self)
{
    return self ? OPTIM_CALL(self, end_curvature, self) : needs_optimizer("end_curvature");
}
