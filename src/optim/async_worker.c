/* Workers sleep until there is a request. The fit of the oldest one comes first, then products in the order of steps.
 *
 * A child of a fork has the memory of its parent but none of its threads. Unfinished work restarts: a product from its
 * theta, a fit from the Q before it. A fork waits for the locks, so that no worker is between two changes that belong
 * together. */
#include "optim/async_worker.h"
#include "optim/optim.h"

#include <unistd.h>

/* All that have workers, newest first; those of a parent as well. Taken before any of their own locks. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static optim_async *all;

static void before_fork(void)
{
    pthread_mutex_lock(&all_lock);
    for (optim_async *async = all; async; async = async->next) pthread_mutex_lock(&async->lock);
}

static void after_fork(void)
{
    for (optim_async *async = all; async; async = async->next) pthread_mutex_unlock(&async->lock);
    pthread_mutex_unlock(&all_lock);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

static void forget(const optim_async *async)
{
    pthread_mutex_lock(&all_lock);
    for (optim_async **at = &all; *at; at = &(*at)->next) {
        if (*at == async) {
            *at = async->next;
            break;
        }
    }
    pthread_mutex_unlock(&all_lock);
}

static void remember(optim_async *async)
{
    pthread_mutex_lock(&all_lock);
    async->next = all;
    all = async;
    pthread_mutex_unlock(&all_lock);
}

static async_request *request_at(const optim_async *async, int i)
{
    return &async->requests[(async->first + i) % async->request_count];
}

static async_request *find_product(const optim_async *async)
{
    for (int i = 0; i < async->count; i++) {
        if (request_at(async, i)->stage == STAGE_QUEUED) return request_at(async, i);
    }
    return NULL;
}

/* Called and left with the lock held, as is evaluate. */
static void fit(optim_async *async, async_request *r)
{
    async->fitting = true;
    r->stage = STAGE_FIT;
    pthread_mutex_unlock(&async->lock);
    OPTIM_CALL(async->self, fit_delayed, async, r);
    pthread_mutex_lock(&async->lock);
    for (int i = 0; i < async->lane_count; i++) {
        if (r->slot[i] >= 0) async->lanes[i].slots[r->slot[i]].done = true;
    }
    async->fitting = false;
    async->first = (async->first + 1) % async->request_count;
    async->count--;
    pthread_cond_signal(&async->changed);
    pthread_cond_signal(&async->wake); /* another worker may have evaluated the next product meanwhile */
}

static void evaluate(optim_async *async, async_request *r, int worker)
{
    r->stage = STAGE_PRODUCT;
    pthread_mutex_unlock(&async->lock);
    OPTIM_CALL(async->self, evaluate_delayed, async, r, worker);
    pthread_mutex_lock(&async->lock);
    async->busy[r->product] = false;
    r->stage = STAGE_READY;
    pthread_cond_signal(&async->changed);
}

static void run_worker(void *data)
{
    const async_worker *self = data;
    optim_async *async = self->async;
    pthread_mutex_lock(&async->lock);
    while (!async->quit) {
        async_request *oldest = async->count > 0 ? request_at(async, 0) : NULL, *next;
        if (oldest && oldest->stage == STAGE_READY && !async->fitting) {
            fit(async, oldest);
        } else if ((next = find_product(async))) {
            evaluate(async, next, self->index);
        } else {
            pthread_cond_wait(&async->wake, &async->lock);
        }
    }
    pthread_mutex_unlock(&async->lock);
}

static psgd_status start(optim_async *async)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    forget(async);
    pthread_mutex_init(&async->lock, NULL);
    pthread_cond_init(&async->wake, NULL);
    pthread_cond_init(&async->changed, NULL);
    async->process = getpid();
    remember(async);
    for (int w = 0; w < async->worker_count; w++) {
        async_worker *worker = &async->workers[w];
        worker->started = la_pool_start(worker->pool, run_worker, worker);
        if (!worker->started) return psgd__fail(PSGD_ERR_NO_MEMORY, "a worker thread could not be started");
    }
    return PSGD_OK;
}

psgd_status psgd__async_start_workers(optim_async *async)
{
    return start(async);
}

void psgd__async_join_workers(optim_async *async)
{
    pthread_mutex_lock(&async->lock);
    async->quit = true;
    pthread_cond_broadcast(&async->wake);
    pthread_mutex_unlock(&async->lock);
    for (int w = 0; w < async->worker_count; w++) {
        async_worker *worker = &async->workers[w];
        if (worker->started) la_pool_join(worker->pool);
        worker->started = false;
        la_pool_free(worker->pool);
        worker->pool = NULL;
    }
}

void psgd__async_stop_workers(optim_async *async)
{
    forget(async);
    if (async->process != getpid()) return; /* never started, or left behind by a fork */
    psgd__async_join_workers(async);
    pthread_mutex_destroy(&async->lock);
    pthread_cond_destroy(&async->wake);
    pthread_cond_destroy(&async->changed);
}

/* The Q before the fits of a request: of the last pair that was fitted, in flight or in force. */
static void rewind_fits(optim_async *async, const async_request *r)
{
    for (int i = 0; i < async->lane_count; i++) {
        const async_lane *lane = &async->lanes[i];
        if (r->slot[i] < 0) continue;
        const psgd_precond *last = *lane->in_force;
        for (int k = 0; k < lane->count; k++) {
            const async_slot *slot = &lane->slots[(lane->first + k) % async->slot_count];
            if (slot->done && slot->fitted) last = slot->result;
        }
        PSGD_PICK(async->self->dtype, psgd__precond_copy)(last, lane->fit);
    }
}

psgd_status psgd__async_survive(optim_async *async)
{
    if (async->process == getpid() || async->curvature) return PSGD_OK;
    for (int w = 0; w < async->worker_count; w++) {
        la_pool_forget(async->workers[w].pool);
        async->workers[w].started = false;
    }
    async->fitting = false;
    for (int i = 0; i < async->count; i++) {
        async_request *r = request_at(async, i);
        if (r->stage == STAGE_FIT) rewind_fits(async, r);
        r->stage = r->stage == STAGE_FIT || r->stage == STAGE_READY ? STAGE_READY : STAGE_QUEUED;
    }
    return start(async);
}
