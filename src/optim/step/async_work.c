/* The work of a request, on a worker: products of all tensors, and fits. Nothing here reads what the caller's thread
 * may write meanwhile. */
#include "core/rng.h"
#include "la/la.h"
#include "la/array/normal.h"
#include "optim/method/method.h"

#include <math.h>
#include <string.h>

static rng_stream stream_of(const optim_async *async, const async_request *r, int tensor, int64_t steps)
{
    return psgd__rng_stream(r->seed, RNG_PROBE, (uint64_t)(async->first_tensor + tensor), (uint64_t)steps);
}

static async_slot *slot_of(const optim_async *async, const async_request *r, int lane)
{
    return r->slot[lane] < 0 ? NULL : &async->lanes[lane].slots[r->slot[lane]];
}

/* A lane's v of one pair, as psgd_optimizer_draw gives it: from element from on, n of them, or rows of width. */
static void draw(rng_stream *stream, const async_slot *slot, int64_t width, int64_t from, int64_t n, real *v)
{
    if (!slot->sparse) {
        la_normal(stream, from, n, v);
        return;
    }
    for (int64_t i = 0; i < slot->rows.count; i++) la_normal(stream, slot->rows.index[i] * width, width, v + i * width);
}

/* The tensor's part of a request: the slot that it goes to, or NULL, and where in it. */
typedef struct place {
    async_slot *slot;
    int64_t n, at; /* elements of v and h; from where on in those of the slot */
    int stream;    /* the tensor that v is drawn as */
    int64_t from;
} place;

static place place_of(const optim_async *async, const async_request *r, int i, int64_t pair)
{
    bool joint = async->joint;
    const async_part *p = &async->parts[i];
    place here = {.slot = slot_of(async, r, joint ? 0 : i), .n = p->n, .at = pair * p->n, .stream = i};
    if (!r->present[i]) here.slot = NULL;
    if (here.slot && here.slot->sparse) here.n = here.slot->rows.count * p->width;
    here.from = here.at;
    if (joint) {
        const async_part *last = &async->parts[async->part_count - 1];
        here.at = here.from = pair * (last->from + last->n) + p->from;
        here.stream = 0;
    }
    return here;
}

static void fail(const optim_async *async, const async_request *r, async_failure what, int64_t code, int64_t tensor)
{
    for (int i = 0; i < async->lane_count; i++) {
        async_slot *slot = slot_of(async, r, i);
        if (!slot) continue;
        slot->failure = what;
        slot->code = code;
        slot->part = tensor;
    }
}

/* v and h of a pair into the slots; false where h is not finite. A joint pair has zeros where a tensor takes no part.
 */
static bool store(const optim_async *async, const async_request *r, const async_worker *worker, int64_t pair)
{
    bool joint = async->joint;
    for (int i = 0; i < async->part_count; i++) {
        place here = place_of(async, r, i, pair);
        async_slot *to = here.slot ? here.slot : joint ? slot_of(async, r, 0) : NULL;
        if (!to) continue;
        real *v = (real *)(void *)to->v + here.at, *h = (real *)(void *)to->h + here.at;
        if (!here.slot) memset(worker->h[i], 0, (size_t)here.n * sizeof(real));
        if (!isfinite((double)la_max_abs(here.n, worker->h[i]))) {
            fail(async, r, ASYNC_NOT_FINITE, 0, i);
            return false;
        }
        memcpy(v, worker->v[i], (size_t)here.n * sizeof(real));
        memcpy(h, worker->h[i], (size_t)here.n * sizeof(real));
        if (async->l2 > 0) la_axpy(here.n, (real)async->l2, v, h); /* the Hessian of what is minimised is H + l2 I */
    }
    return true;
}

void PSGD_TYPED(psgd__optim_evaluate_delayed)(const optim_async *async, async_request *r, int index)
{
    const async_worker *worker = &async->workers[index];
    const psgd_delayed_product *product = &async->product;
    fail(async, r, ASYNC_FINE, 0, 0);
    for (int64_t k = 0; k < async->pairs; k++) {
        for (int i = 0; i < async->part_count; i++) {
            place here = place_of(async, r, i, k);
            memset(worker->v[i], 0, here.slot ? 0 : (size_t)here.n * sizeof(real));
            if (!here.slot) continue;
            if (here.slot->drawn) {
                memcpy(worker->v[i], (const real *)(const void *)here.slot->v + here.at, (size_t)here.n * sizeof(real));
                continue;
            }
            rng_stream stream = stream_of(async, r, here.stream, here.slot->steps);
            draw(&stream, here.slot, async->parts[i].width, here.from, here.n, worker->v[i]);
        }
        int code = product->product(product->data, r->product, index, (const void *const *)async->theta[r->product],
                                    (const void *const *)worker->v, worker->h);
        if (code) fail(async, r, ASYNC_CALLBACK, code, 0);
        if (code || !store(async, r, worker, k)) return;
    }
}

typedef struct fits {
    const optim_async *async;
    const async_request *request;
} fits;

static void fit_lane(void *data, int i)
{
    const fits *f = data;
    const optim_async *async = f->async;
    async_lane *lane = &async->lanes[i];
    async_slot *slot = slot_of(async, f->request, i);
    if (!slot || slot->failure || !lane->fit) return;
    if (!async->newton && !async->integrate && !async->joint) {
        rng_stream stream = stream_of(async, f->request, i, slot->steps);
        draw(&stream, slot, async->parts[i].width, 0, async->parts[i].n, (real *)(void *)slot->v);
    }
    const void *v = async->integrate ? NULL : slot->v;
    lane->fit->settings.step = slot->rate;
    psgd_status status = slot->sparse ? PSGD_TYPED(psgd__precond_update_rows)(lane->fit, &slot->rows, v, slot->h)
                                      : PSGD_TYPED(psgd__precond_update)(lane->fit, async->pairs, v, slot->h);
    slot->fitted = status == PSGD_OK;
    if (slot->fitted) PSGD_TYPED(psgd__precond_copy)(lane->fit, slot->result);
}

static bool is_concurrent(const fits *f, int i)
{
    const async_slot *slot = slot_of(f->async, f->request, i);
    const psgd_precond *fit = f->async->lanes[i].fit;
    return f->async->work.stride > 0 && slot && fit && !slot->sparse && psgd__precond_concurrent(fit);
}

static bool is_heavy(void *data, int i)
{
    const fits *f = data;
    return is_concurrent(f, i) && psgd__precond_is_heavy(f->async->lanes[i].fit);
}

static void fit_small(void *data, int i)
{
    if (is_concurrent(data, i)) fit_lane(data, i);
}

void PSGD_TYPED(psgd__optim_fit_delayed)(const optim_async *async, const async_request *r)
{
    fits f = {async, r};
    int threads = la_threads();
    if (threads > async->work.slices) threads = async->work.slices;
    if (async->work.stride > 0) la_tasks(async->lane_count, threads, is_heavy, fit_small, &f);
    for (int i = 0; i < async->lane_count; i++) {
        if (!is_concurrent(&f, i)) fit_lane(&f, i);
    }
}
