/* What data ranks send to curvature ranks, and what they take from them. */
#include "optim/curvature/curvature_messages.h"

#include <string.h>

int64_t curvature_lane_bytes(const optim_async *async, int lane)
{
    const psgd_optimizer *self = async->self;
    return self->joint ? psgd_precond_state_bytes(self->joint) : self->parts[lane].precond_bytes;
}

int64_t curvature_request_bytes(const optim_curvature *c, int d)
{
    return c->kept[d] + (d == 0 ? c->at_kept : 0);
}

int64_t curvature_reply_bytes(const optim_async *async, int d, const int *slot)
{
    const char *holds = async->curvature->holds + (int64_t)d * async->lane_count;
    int64_t bytes = (int64_t)sizeof(reply_head) + async->lane_count * (int64_t)sizeof(int64_t);
    for (int i = 0; i < async->lane_count; i++) {
        if (slot[i] >= 0 && holds[i]) bytes += curvature_lane_bytes(async, i);
    }
    return bytes;
}

void curvature_clear(optim_curvature *c, int place)
{
    for (int r = 0; r < c->all->size; r++) c->all->out[place][r] = c->all->in[place][r] = (psgd_message){NULL, 0};
}

static psgd_status refuse_step(const optim_curvature *c)
{
    if (c->serves) return psgd__fail(PSGD_ERR_ARGUMENT, "a curvature rank makes no steps: it serves");
    return psgd__fail(PSGD_ERR_ARGUMENT, "the curvature ranks have ended: psgd_optimizer_end_curvature comes after the "
                                         "last step");
}

static void write_lanes(const optim_async *async, char *message)
{
    const optim_curvature *c = async->curvature;
    const psgd_optimizer *self = async->self;
    const optim_settings *set = &self->settings;
    request_lane *lanes = (request_lane *)(void *)(message + c->at_lanes);
    int64_t *present = (int64_t *)(void *)(message + c->at_present), *rows = (int64_t *)(void *)(message + c->at_rows);
    for (int i = 0; i < async->lane_count; i++) {
        const async_slot *slot = async->lanes[i].open;
        int64_t taken = self->joint ? self->now.step - self->now.skipped : self->parts[i].taken;
        lanes[i] = (request_lane){.asked = slot != NULL};
        if (slot) {
            lanes[i].steps = slot->steps;
            lanes[i].rows = slot->sparse ? slot->rows.count : -1;
            lanes[i].rate = set->fit.step * psgd__optim_schedule(self, &set->step_schedule, taken);
            if (slot->sparse) memcpy(rows, slot->index, (size_t)slot->rows.count * sizeof *rows);
        }
        if (!self->joint) rows += self->parts[i].rows_max;
    }
    for (int i = 0; i < async->part_count; i++) present[i] = async->open->present[i];
}

/* Everything that data rank 0 sends. The others need only what they keep, but draw along. */
static psgd_status write_request(const optim_async *async, void *const *theta, char *message)
{
    const optim_curvature *c = async->curvature;
    const psgd_optimizer *self = async->self;
    const async_request *r = async->open;
    int64_t element = (int64_t)sizeof(real);
    request_head head = {.step = r->step, .seed = r->seed, .drawn = psgd__optim_probes_p(self)};
    memcpy(message, &head, sizeof head);
    write_lanes(async, message);
    for (int i = 0; i < async->part_count; i++) {
        const async_part *p = &async->parts[i];
        if (theta[i]) memcpy(message + c->at_theta + p->from * element, theta[i], (size_t)(p->n * element));
    }
    for (int i = 0; head.drawn && i < async->lane_count; i++) {
        const async_slot *slot = async->lanes[i].open;
        char *v = message + c->at_v + async->pairs * async->parts[i].from * element;
        if (slot) PSGD_TRY(PSGD_TYPED(psgd__optim_draw)(self, i, slot->sparse ? &slot->rows : NULL, v));
    }
    int code = c->bound.keep ? c->bound.keep(c->bound.data, message + c->at_kept) : 0;
    if (code == 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_CALLBACK, "keep of step %lld reported failure %d", (long long)r->step, code);
}

/* Starts to send what is in the next place for requests. */
static psgd_status send_request(optim_curvature *c)
{
    int place = (int)(c->asked % CURVATURE_PLACES), rank = c->all->rank;
    char *message = c->request[place] + (rank == 0 ? 0 : c->at_kept);
    curvature_clear(c, place);
    for (int r = c->data_ranks; r < c->all->size; r++) {
        c->all->out[place][r] = (psgd_message){message, curvature_request_bytes(c, rank)};
    }
    c->asked++;
    return psgd__comm_start(c->all, place);
}

/* What was sent from the next place for requests has arrived. */
static psgd_status free_place(optim_curvature *c)
{
    return c->asked < CURVATURE_PLACES ? PSGD_OK : psgd__comm_finish(c->all, (int)(c->asked % CURVATURE_PLACES));
}

static psgd_status read_reply(optim_async *async, const async_request *r, const char *reply)
{
    const optim_curvature *c = async->curvature;
    const char *holds = c->holds + (int64_t)c->all->rank * async->lane_count;
    const int64_t *fitted = (const int64_t *)(const void *)(reply + sizeof(reply_head));
    const char *at = (const char *)(fitted + async->lane_count);
    reply_head head;
    memcpy(&head, reply, sizeof head);
    for (int i = 0; i < async->lane_count; i++) {
        if (r->slot[i] < 0) continue;
        async_slot *slot = &async->lanes[i].slots[r->slot[i]];
        int64_t bytes = curvature_lane_bytes(async, i);
        slot->failure = (int)head.failure;
        slot->code = head.code;
        slot->part = head.part;
        slot->fitted = fitted[i];
        slot->done = true;
        if (!holds[i]) continue;
        if (slot->fitted) PSGD_TRY(psgd_precond_state_load(slot->result, bytes, at));
        at += bytes;
    }
    return PSGD_OK;
}

/* Waits for the reply to the oldest request. */
static psgd_status take_one(optim_async *async)
{
    optim_curvature *c = async->curvature;
    const async_request *r = &async->requests[async->first];
    int place = CURVATURE_PLACES + (int)(c->taken % CURVATURE_PLACES);
    curvature_clear(c, place);
    c->all->in[place][c->data_ranks] = (psgd_message){c->reply[0], curvature_reply_bytes(async, c->all->rank, r->slot)};
    c->taken++;
    PSGD_TRY(psgd__comm_start(c->all, place));
    PSGD_TRY(psgd__comm_finish(c->all, place));
    async->first = (async->first + 1) % async->request_count;
    async->count--;
    return read_reply(async, r, c->reply[0]);
}

psgd_status PSGD_TYPED(psgd__optim_ask_curvature)(optim_async *async, void *const *theta)
{
    optim_curvature *c = async->curvature;
    psgd_comm *comm = async->self->ranks ? async->self->ranks->comm : NULL;
    if (c->serves || c->ended) return refuse_step(c);
    if (c->asked - c->taken >= CURVATURE_UNDER_WAY) PSGD_TRY(take_one(async));
    PSGD_TRY(free_place(c));
    PSGD_TRY(psgd_comm_agree(comm, write_request(async, theta, c->request[c->asked % CURVATURE_PLACES])));
    async->count++; /* new_request has taken the place in the ring */
    return send_request(c);
}

psgd_status PSGD_TYPED(psgd__optim_take_curvature)(optim_async *async, int64_t step)
{
    optim_curvature *c = async->curvature;
    if (!c) return PSGD_OK;
    for (int k = 0; k < CURVATURE_PLACES && k < c->asked; k++) psgd__comm_poll(c->all, k);
    while (async->count > 0 && async->requests[async->first].due <= step) PSGD_TRY(take_one(async));
    return PSGD_OK;
}

psgd_status PSGD_TYPED(psgd__optim_end_curvature)(psgd_optimizer *self)
{
    optim_curvature *c = self->async ? self->async->curvature : NULL;
    if (!c || c->serves) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "end_curvature is for data ranks, after psgd_optimizer_bind_curvature");
    }
    if (c->ended) return PSGD_OK;
    c->ended = true;
    PSGD_TRY(PSGD_TYPED(psgd__optim_take_curvature)(self->async, INT64_MAX));
    PSGD_TRY(free_place(c));
    memcpy(c->request[c->asked % CURVATURE_PLACES], &(request_head){.end = 1}, sizeof(request_head));
    PSGD_TRY(send_request(c));
    for (int k = 0; k < CURVATURE_PLACES && k < c->asked; k++) PSGD_TRY(psgd__comm_finish(c->all, k));
    return PSGD_OK;
}
