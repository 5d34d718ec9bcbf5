/* What the caller's thread does: memory, what comes into force at a step, and requests to the workers, which are in
 * async_worker.c. */
#include "optim/async.h"
#include "optim/async_worker.h"
#include "optim/optim.h"

#include <math.h>
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
    lane->in_force = self->settings.joint ? &self->joint : &self->parts[index].precond;
    if (!*lane->in_force) return PSGD_OK;
    lane->slots = psgd__alloc(self->context, async->slot_count, sizeof *lane->slots);
    if (!lane->slots) return no_memory(async->delay);
    for (int k = 0; k < async->slot_count; k++) {
        PSGD_TRY(
            create_copy(self, *lane->in_force, ndim, shape, settings, segments, &self->work, &lane->slots[k].result));
    }
    return create_copy(self, *lane->in_force, ndim, shape, settings, NULL, &async->work, &lane->fit);
}

/* v and h of every slot, and the list of their rows, in one block. */
static psgd_status allocate_slots(psgd_optimizer *self)
{
    optim_async *async = self->async;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype), bytes = 0;
    for (int pass = 0; pass < 2; pass++) {
        char *at = async->arrays;
        for (int i = 0; i < async->lane_count; i++) {
            async_lane *lane = &async->lanes[i];
            const part *p = &self->parts[i];
            if (!lane->fit) continue;
            int64_t rows = self->settings.joint ? 0 : p->rows_max, each;
            lane->room = self->settings.joint ? self->total : rows > 0 ? rows * psgd__part_width(p) : p->n;
            if (!psgd__mul_fits(lane->room, async->pairs, &lane->room) || !psgd__mul_fits(lane->room, element, &each) ||
                !psgd__add_fits(each, 63, &each)) {
                return no_memory(async->delay);
            }
            each = each / 64 * 64;
            int64_t list = (rows * (int64_t)sizeof(int64_t) + 63) / 64 * 64;
            for (int k = 0; k < async->slot_count; k++) {
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
    PSGD_TRY(allocate_slots(self));
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

/* The slot whose turn it is to come into force at the coming step, and whose fit is done, waited for where it is due;
 * NULL: none. */
static async_slot *find_due(optim_async *async, const async_lane *lane)
{
    if (lane->count == 0) return NULL;
    async_slot *slot = &lane->slots[lane->first];
    bool due = slot->due <= async->self->now.step;
    if (!due && !async->free) return NULL;
    while (due && !slot->done) pthread_cond_wait(&async->changed, &async->lock);
    return slot->done ? slot : NULL;
}

/* Brings into force what is due. Returns the first slot whose product has failed. */
static const async_slot *publish(optim_async *async)
{
    psgd_optimizer *self = async->self;
    const async_slot *failed = NULL;
    pthread_mutex_lock(&async->lock);
    for (int i = 0; i < async->lane_count; i++) {
        async_lane *lane = &async->lanes[i];
        for (async_slot *slot; (slot = find_due(async, lane));) {
            if (slot->failure && (!failed || slot->failure > failed->failure)) failed = slot;
            if (slot->fitted) {
                psgd_precond *before = *lane->in_force;
                *lane->in_force = slot->result;
                slot->result = before;
                if (self->joint) self->now.fits++;
                if (!self->joint) self->parts[i].fitted = true;
            }
            lane->first = (lane->first + 1) % async->slot_count;
            lane->count--;
        }
    }
    pthread_mutex_unlock(&async->lock);
    return failed;
}

static psgd_status report(psgd_optimizer *self, const async_slot *slot)
{
    if (slot->failure == ASYNC_CALLBACK) {
        return psgd__fail(PSGD_ERR_CALLBACK, "the product of step %lld reported failure %d", (long long)slot->step,
                          (int)slot->code);
    }
    return psgd__optim_skip(self, "the Hessian-vector product of %s at step %lld is not finite",
                            self->parts[slot->part].name, (long long)slot->step);
}

/* A lane has a pair on this step. */
static bool takes_pair(const psgd_optimizer *self, int lane, const void *const *h)
{
    bool worker = async_has_product(self->async), products = optim_uses_products(self);
    if (self->joint) {
        bool some = worker || !products;
        for (int i = 0; i < self->part_count && !some; i++) some = self->parts[i].due && h && h[i];
        return some && psgd__optim_update_due(self, 0);
    }
    return self->async->lanes[lane].fit && self->parts[lane].due && (worker || !products || (h && h[lane]));
}

/* The ring has room: a request is done when the pair that is due delay steps later is in force. */
static async_request *new_request(optim_async *async)
{
    psgd_optimizer *self = async->self;
    pthread_mutex_lock(&async->lock);
    while (async->count == async->request_count) pthread_cond_wait(&async->changed, &async->lock);
    async_request *r = &async->requests[(async->first + async->count) % async->request_count];
    pthread_mutex_unlock(&async->lock);
    r->step = self->now.step;
    r->seed = (uint64_t)self->settings.seed;
    r->product = -1;
    for (int i = 0; i < async->part_count; i++) r->present[i] = self->parts[i].present;
    for (int i = 0; i < async->lane_count; i++) r->slot[i] = -1;
    return r;
}

static void open_slot(optim_async *async, int index)
{
    const psgd_optimizer *self = async->self;
    async_lane *lane = &async->lanes[index];
    int at = (lane->first + lane->count++) % async->slot_count;
    async_slot *slot = lane->open = &lane->slots[at];
    const psgd_rows *rows = self->joint ? NULL : self->parts[index].rows;
    slot->steps = self->joint ? self->now.step : self->parts[index].steps;
    slot->step = self->now.step;
    slot->due = self->now.step + async->delay;
    slot->done = slot->fitted = false;
    slot->failure = ASYNC_FINE;
    slot->sparse = rows;
    slot->rows = (psgd_rows){.count = rows ? rows->count : 0, .index = slot->index};
    if (rows) memcpy(slot->index, rows->index, (size_t)rows->count * sizeof *rows->index);
    async->open->slot[index] = at;
}

/* The last slot of a lane is empty again. */
static void close_slot(optim_async *async, int index)
{
    async_lane *lane = &async->lanes[index];
    if (lane->open) lane->count--;
    lane->open = NULL;
    async->open->slot[index] = -1;
}

/* A copy of theta, and what the caller keeps. */
static psgd_status keep(optim_async *async, void *const *theta)
{
    async_request *r = async->open;
    size_t element = psgd_dtype_size(async->self->dtype);
    pthread_mutex_lock(&async->lock);
    while (r->product < 0) {
        for (int k = 0; k < async->slot_count && r->product < 0; k++) {
            if (!async->busy[k]) r->product = k;
        }
        if (r->product < 0) pthread_cond_wait(&async->changed, &async->lock);
    }
    async->busy[r->product] = true;
    pthread_mutex_unlock(&async->lock);
    for (int i = 0; i < async->part_count; i++) {
        if (theta[i]) memcpy(async->theta[r->product][i], theta[i], (size_t)async->parts[i].n * element);
    }
    int code = async->product.keep ? async->product.keep(async->product.data, r->product) : 0;
    if (code == 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_CALLBACK, "keep of step %lld reported failure %d", (long long)r->step, code);
}

static void release_product(optim_async *async, async_request *r)
{
    if (r->product < 0) return;
    pthread_mutex_lock(&async->lock);
    async->busy[r->product] = false;
    pthread_mutex_unlock(&async->lock);
    r->product = -1;
}

/* The first product of a lane is evaluated here, so that no step is made without curvature. */
static psgd_status product_at_once(optim_async *async)
{
    psgd_optimizer *self = async->self;
    PSGD_TRY(psgd__async_drain(self));
    OPTIM_CALL(self, evaluate_delayed, async, async->open, 0);
    release_product(async, async->open);
    for (int i = 0; i < async->lane_count; i++) {
        const async_slot *slot = async->lanes[i].open;
        if (slot && slot->failure) return report(self, slot);
    }
    return PSGD_OK;
}

void psgd__async_drop(psgd_optimizer *self)
{
    optim_async *async = self->async;
    if (!async || !async->open) return;
    release_product(async, async->open);
    for (int i = 0; i < async->lane_count; i++) close_slot(async, i);
    async->open = NULL;
}

static psgd_status open_request(optim_async *async, void *const *theta, const void *const *h)
{
    psgd_optimizer *self = async->self;
    bool some = false, at_once = false, products = async_has_product(async);
    for (int i = 0; i < async->lane_count; i++) {
        async_lane *lane = &async->lanes[i];
        lane->open = NULL;
        lane->at_once = false;
        if (!takes_pair(self, i, h)) continue;
        if (!async->open) async->open = new_request(async);
        lane->at_once = lane->count == 0 && psgd_precond_updates(*lane->in_force) == 0;
        if (!lane->at_once || products) open_slot(async, i);
        at_once |= lane->at_once;
        some = true;
    }
    if (!some || !products) return PSGD_OK;
    self->now.products += async->pairs;
    PSGD_TRY(keep(async, theta));
    return at_once ? product_at_once(async) : PSGD_OK;
}

psgd_status psgd__async_begin(psgd_optimizer *self, void *const *theta, const void *const *h)
{
    optim_async *async = self->async;
    if (!async) return PSGD_OK;
    PSGD_TRY(psgd__async_survive(async));
    const async_slot *failed = publish(async);
    if (failed) return report(self, failed);
    int64_t skipped = self->now.skipped;
    psgd_status status = open_request(async, async->caller_theta ? async->caller_theta : theta, h);
    if (status != PSGD_OK || self->now.skipped > skipped) psgd__async_drop(self);
    return status;
}

psgd_status psgd__async_check(psgd_optimizer *self)
{
    optim_async *async = self->async;
    if (!async) return PSGD_OK;
    PSGD_TRY(psgd__async_survive(async));
    const async_slot *bad = NULL;
    pthread_mutex_lock(&async->lock);
    for (int i = 0; i < async->lane_count && !bad; i++) {
        async_slot *slot = find_due(async, &async->lanes[i]);
        if (slot && slot->failure == ASYNC_NOT_FINITE) bad = slot;
    }
    pthread_mutex_unlock(&async->lock);
    if (!bad) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NOT_FINITE, "the Hessian-vector product of %s at step %lld is not finite",
                      self->parts[bad->part].name, (long long)bad->step);
}

void psgd__async_post(psgd_optimizer *self)
{
    optim_async *async = self->async;
    if (!async || !async->open) return;
    async_request *r = async->open;
    bool some = false;
    for (int i = 0; i < async->lane_count; i++) {
        if (async->lanes[i].at_once) close_slot(async, i);
        some |= async->lanes[i].open != NULL;
    }
    async->open = NULL;
    if (!some) return;
    pthread_mutex_lock(&async->lock);
    r->stage = r->product >= 0 ? STAGE_QUEUED : STAGE_READY;
    async->count++;
    pthread_cond_signal(&async->wake);
    pthread_mutex_unlock(&async->lock);
}

void psgd__async_follow(psgd_optimizer *self, int index)
{
    const async_lane *lane = &self->async->lanes[index];
    PSGD_PICK(self->dtype, psgd__precond_copy)(*lane->in_force, lane->fit);
}

psgd_status psgd__async_drain(psgd_optimizer *self)
{
    optim_async *async = self->async;
    if (!async) return PSGD_OK;
    PSGD_TRY(psgd__async_survive(async));
    pthread_mutex_lock(&async->lock);
    while (async->count > 0) pthread_cond_wait(&async->changed, &async->lock);
    pthread_mutex_unlock(&async->lock);
    return PSGD_OK;
}
