/* What the caller's thread does in a step: puts finished fits into effect and sends requests to the workers
 * (async_worker.c). */
#include "optim/async.h"
#include "optim/async_worker.h"
#include "optim/optim.h"

#include <string.h>

/* The slot that is next to take effect and whose fit is done; a fit that is due at the coming step is waited for. NULL:
 * none. */
static async_slot *find_due(optim_async *async, const async_lane *lane)
{
    if (lane->count == 0) return NULL;
    async_slot *slot = &lane->slots[lane->first];
    bool due = slot->due <= async->self->now.step;
    if (!due && !async->free) return NULL;
    while (due && !slot->done) pthread_cond_wait(&async->changed, &async->lock);
    return slot->done ? slot : NULL;
}

/* Puts into effect what is due. Returns the first slot whose product has failed. */
static const async_slot *publish(optim_async *async)
{
    psgd_optimizer *self = async->self;
    const async_slot *failed = NULL;
    pthread_mutex_lock(&async->lock);
    for (int i = 0; i < async->lane_count; i++) {
        async_lane *lane = &async->lanes[i];
        for (async_slot *slot; (slot = find_due(async, lane));) {
            if (slot->failure && (!failed || slot->failure > failed->failure)) failed = slot;
            if (slot->fitted && slot->result) {
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
    bool here = self->async->lanes[lane].fit || self->async->curvature;
    if (self->joint) {
        bool some = worker || !products;
        for (int i = 0; i < self->part_count && !some; i++) some = self->parts[i].due && h && h[i];
        return some && psgd__optim_update_due(self, 0);
    }
    return here && self->parts[lane].due && (worker || !products || (h && h[lane]));
}

/* The ring has room: a request is done by the time its fits take effect, delay steps later. */
static async_request *new_request(optim_async *async)
{
    psgd_optimizer *self = async->self;
    pthread_mutex_lock(&async->lock);
    while (async->count == async->request_count) pthread_cond_wait(&async->changed, &async->lock);
    async_request *r = &async->requests[(async->first + async->count) % async->request_count];
    pthread_mutex_unlock(&async->lock);
    r->step = self->now.step;
    r->due = self->now.step + async->delay;
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
    slot->drawn = false;
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

/* v of covariance P takes the Q in force at this step, not the one that a worker happens to have. */
static psgd_status draw_here(optim_async *async)
{
    psgd_optimizer *self = async->self;
    if (!psgd__optim_probes_p(self)) return PSGD_OK;
    for (int i = 0; i < async->lane_count; i++) {
        async_slot *slot = async->lanes[i].open;
        if (!slot) continue;
        PSGD_TRY(OPTIM_CALL(self, draw, self, i, slot->sparse ? &slot->rows : NULL, slot->v));
        slot->drawn = true;
    }
    return PSGD_OK;
}

/* The first pairs of lanes: their Q takes effect now. */
static psgd_status fit_at_once(optim_async *async)
{
    psgd_optimizer *self = async->self;
    PSGD_TRY(OPTIM_CALL(self, take_curvature, async, self->now.step));
    for (int i = 0; i < async->lane_count; i++) {
        const async_slot *slot = async->lanes[i].open;
        if (slot && slot->failure) return report(self, slot);
    }
    (void)publish(async);
    for (int i = 0; i < async->lane_count; i++) {
        async_lane *lane = &async->lanes[i];
        if (lane->at_once) lane->open = NULL;
        lane->at_once = false;
    }
    return PSGD_OK;
}

/* The request to the curvature ranks. */
static psgd_status ask(optim_async *async, void *const *theta, bool at_once)
{
    const psgd_optimizer *self = async->self;
    for (int i = 0; i < async->lane_count; i++) {
        async_lane *lane = &async->lanes[i];
        if (lane->at_once) lane->open->due = self->now.step;
    }
    if (at_once) async->open->due = self->now.step;
    PSGD_TRY(OPTIM_CALL(self, ask_curvature, async, theta));
    return at_once ? fit_at_once(async) : PSGD_OK;
}

/* All ranks. Whether the first pair of a lane is still to come its owner knows; of tiles, all that have one. */
static psgd_status agree_on_first(optim_async *async)
{
    psgd_optimizer *self = async->self;
    bool differ = async->curvature;
    if (!self->ranks || self->joint) return PSGD_OK;
    for (int i = 0; i < self->part_count; i++) differ |= self->parts[i].spread;
    if (!differ) return PSGD_OK;
    for (int i = 0; i < async->lane_count; i++) psgd__ranks_put(self, i, !async->lanes[i].at_once);
    PSGD_TRY(psgd__ranks_collect(self));
    for (int i = 0; i < async->lane_count; i++) async->lanes[i].at_once = psgd__ranks_max(self, i) == 0;
    return PSGD_OK;
}

static psgd_status open_request(optim_async *async, void *const *theta, const void *const *h)
{
    psgd_optimizer *self = async->self;
    bool some = false, due = false, at_once = false, products = async_has_product(async);
    for (int i = 0; i < async->lane_count; i++) {
        async_lane *lane = &async->lanes[i];
        lane->open = NULL;
        lane->at_once = lane->count == 0 && psgd_precond_updates(*lane->in_force) == 0;
    }
    for (int i = 0; i < async->part_count; i++) due |= self->parts[i].due; /* on all ranks alike */
    if (due) PSGD_TRY(agree_on_first(async));
    for (int i = 0; i < async->lane_count; i++) {
        async_lane *lane = &async->lanes[i];
        bool takes = takes_pair(self, i, h);
        lane->at_once &= takes;
        if (!takes) continue;
        if (!async->open) async->open = new_request(async);
        if (!lane->at_once || products) open_slot(async, i);
        at_once |= lane->at_once;
        some = true;
    }
    if (!some || !products) return PSGD_OK;
    if (async->of_objective) self->now.products += async->pairs;
    if (async->curvature) return ask(async, theta, at_once);
    PSGD_TRY(draw_here(async));
    PSGD_TRY(keep(async, theta));
    return at_once ? product_at_once(async) : PSGD_OK;
}

psgd_status psgd__async_begin(psgd_optimizer *self, void *const *theta, const void *const *h)
{
    optim_async *async = self->async;
    if (!async) return PSGD_OK;
    PSGD_TRY(psgd__async_survive(async));
    PSGD_TRY(OPTIM_CALL(self, take_curvature, async, self->now.step));
    const async_slot *failed = publish(async);
    if (failed) return report(self, failed);
    int64_t skipped = self->now.skipped;
    psgd_status status = open_request(async, async->caller_theta ? async->caller_theta : theta, h);
    if (status != PSGD_OK || self->now.skipped > skipped) psgd__async_drop(self);
    return status;
}

/* The first slot that is due at the coming step and whose product was not finite, or has failed. */
static const async_slot *find_failed(optim_async *async)
{
    const async_slot *bad = NULL;
    pthread_mutex_lock(&async->lock);
    for (int i = 0; i < async->lane_count && !bad; i++) {
        const async_slot *slot = find_due(async, &async->lanes[i]);
        if (slot && slot->failure) bad = slot;
    }
    pthread_mutex_unlock(&async->lock);
    return bad;
}

psgd_status psgd__async_publish(psgd_optimizer *self)
{
    optim_async *async = self->async;
    if (!async || async_has_product(async)) return PSGD_OK;
    PSGD_TRY(psgd__async_survive(async));
    if (!find_failed(async)) (void)publish(async);
    return PSGD_OK;
}

psgd_status psgd__async_check(psgd_optimizer *self)
{
    optim_async *async = self->async;
    if (!async) return PSGD_OK;
    PSGD_TRY(psgd__async_survive(async));
    PSGD_TRY(OPTIM_CALL(self, take_curvature, async, self->now.step));
    const async_slot *bad = find_failed(async);
    if (!bad || bad->failure != ASYNC_NOT_FINITE) return PSGD_OK; /* another failure is what the step returns */
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
    if (!some || async->curvature) return; /* these have it already */
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
    PSGD_TRY(OPTIM_CALL(self, take_curvature, async, INT64_MAX));
    pthread_mutex_lock(&async->lock);
    while (async->count > 0) pthread_cond_wait(&async->changed, &async->lock);
    pthread_mutex_unlock(&async->lock);
    return PSGD_OK;
}

/* Pairs in flight as bytes: for each slot what it is, and the Q after its pair. The workers are done with all of them
 * before, so that neither v and h nor theta is needed. */
typedef struct saved_slot {
    int64_t used, step, due, fitted, failure, code, part;
} saved_slot;

int64_t psgd__async_bytes(const psgd_optimizer *self, int64_t precond_bytes)
{
    if (!self->async || precond_bytes == 0) return 0;
    return self->async->slot_count * ((int64_t)sizeof(saved_slot) + precond_bytes);
}

psgd_status psgd__async_save(const psgd_optimizer *self, int index, int64_t precond_bytes, char *bytes)
{
    optim_async *async = self->async;
    if (!async) return PSGD_OK;
    const async_lane *lane = &async->lanes[index];
    memset(bytes, 0, (size_t)psgd__async_bytes(self, precond_bytes));
    for (int k = 0; k < lane->count; k++) {
        const async_slot *slot = &lane->slots[(lane->first + k) % async->slot_count];
        saved_slot head = {.used = 1,
                           .step = slot->step,
                           .due = slot->due,
                           .fitted = slot->fitted,
                           .failure = slot->failure,
                           .code = slot->code,
                           .part = slot->part};
        memcpy(bytes, &head, sizeof head);
        if (slot->fitted && slot->result) PSGD_TRY(psgd_precond_state_save(slot->result, bytes + sizeof head));
        bytes += (int64_t)sizeof head + precond_bytes;
    }
    return PSGD_OK;
}

const psgd_precond *psgd__async_in_flight(const psgd_optimizer *self, int index, int k, int64_t precond_bytes,
                                          int64_t *at)
{
    const optim_async *async = self->async;
    if (!async || k >= async->lanes[index].count) return NULL;
    const async_lane *lane = &async->lanes[index];
    const async_slot *slot = &lane->slots[(lane->first + k) % async->slot_count];
    int64_t each = (int64_t)sizeof(saved_slot) + precond_bytes;
    *at = slot->fitted ? precond_bytes + k * each + (int64_t)sizeof(saved_slot) : -1;
    return slot->result;
}

static bool is_slot(const psgd_optimizer *self, const saved_slot *s)
{
    const int64_t max = INT64_C(1) << 53;
    return s->step >= 0 && s->step <= max && s->due >= s->step && s->due - s->step <= self->async->delay &&
           s->failure >= ASYNC_FINE && s->failure <= ASYNC_CALLBACK && s->part >= 0 && s->part < self->part_count &&
           (s->fitted == 0 || s->fitted == 1) && !(s->fitted && s->failure);
}

psgd_status psgd__async_load(psgd_optimizer *self, int index, int64_t precond_bytes, const char *bytes)
{
    optim_async *async = self->async;
    if (!async) return PSGD_OK;
    async_lane *lane = &async->lanes[index];
    const psgd_precond *last = *lane->in_force;
    lane->first = lane->count = 0;
    for (int k = 0; k < async->slot_count; k++, bytes += (int64_t)sizeof(saved_slot) + precond_bytes) {
        saved_slot head;
        memcpy(&head, bytes, sizeof head);
        if (!head.used) break;
        if (!is_slot(self, &head)) {
            return psgd__fail(PSGD_ERR_FORMAT, "the state is damaged: it holds pairs in flight that no state has");
        }
        async_slot *slot = &lane->slots[k];
        slot->step = head.step;
        slot->due = head.due;
        slot->done = true;
        slot->fitted = head.fitted;
        slot->failure = (int)head.failure;
        slot->code = head.code;
        slot->part = head.part;
        if (slot->fitted && slot->result) {
            PSGD_TRY(psgd_precond_state_load(slot->result, precond_bytes, bytes + sizeof head));
            last = slot->result;
        }
        lane->count++;
    }
    if (lane->fit) PSGD_PICK(self->dtype, psgd__precond_copy)(last, lane->fit);
    return PSGD_OK;
}
