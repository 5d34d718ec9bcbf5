/* Curvature ranks: requests one after the other, each answered by rank 0 of them. */
#include "optim/curvature/curvature_messages.h"

#include <string.h>

static psgd_comm *comm_of(const optim_async *async)
{
    return async->self->ranks ? async->self->ranks->comm : NULL;
}

/* The first rank whose share has failed names the failure. */
static int first_code(optim_async *async, int own)
{
    optim_curvature *c = async->curvature;
    psgd_comm *comm = comm_of(async);
    memset(c->codes, 0, (size_t)comm->size * sizeof *c->codes);
    c->codes[comm->rank] = own;
    for (int r = 0; r < comm->size && c->status == PSGD_OK; r++) {
        c->status = psgd_comm_broadcast(comm, r, sizeof *c->codes, &c->codes[r]);
    }
    for (int r = 0; r < comm->size; r++) {
        if (c->codes[r]) return (int)c->codes[r];
    }
    return c->status == PSGD_OK ? 0 : -1;
}

int curvature_product(void *data, int slot, int worker, const void *const *theta, const void *const *v, void *const *h)
{
    optim_async *async = data;
    optim_curvature *c = async->curvature;
    const psgd_optimizer *self = async->self;
    (void)slot, (void)worker;
    int code = c->bound.product(c->bound.data, c->kept_list, theta, v, h);
    if (!self->ranks) return code;
    code = first_code(async, code);
    if (code) return code;
    c->status = psgd_comm_sum(comm_of(async), self->dtype, self->total, h[0]);
    return c->status == PSGD_OK ? 0 : -1;
}

/* Starts to receive a request into its place. */
static psgd_status start_request(optim_curvature *c, int64_t n)
{
    int place = (int)(n % CURVATURE_PLACES);
    char *at = c->request[place];
    curvature_clear(c, place);
    for (int d = 0; d < c->data_ranks; d++) {
        c->all->in[place][d] = (psgd_message){at, curvature_request_bytes(c, d)};
        at += (curvature_request_bytes(c, d) + 63) / 64 * 64;
    }
    return psgd__comm_start(c->all, place);
}

static void read_lane(const optim_async *async, const char *message, const request_lane *from, int i,
                      const int64_t *rows)
{
    const optim_curvature *c = async->curvature;
    int64_t element = (int64_t)sizeof(real);
    request_head head;
    memcpy(&head, message, sizeof head);
    async_slot *slot = &async->lanes[i].slots[0];
    slot->steps = from->steps;
    slot->step = head.step;
    slot->rate = from->rate;
    slot->fitted = slot->done = false;
    slot->sparse = from->rows >= 0;
    slot->drawn = head.drawn;
    slot->rows = (psgd_rows){.count = slot->sparse ? from->rows : 0, .index = slot->index};
    if (slot->sparse) memcpy(slot->index, rows, (size_t)from->rows * sizeof *rows);
    if (!head.drawn) return;
    int64_t width = async->parts[i].width, n = slot->sparse ? from->rows * width : async->pairs * async->parts[i].n;
    memcpy(slot->v, message + c->at_v + async->pairs * async->parts[i].from * element, (size_t)(n * element));
}

/* The request as a worker takes it, in the first slot of each lane. */
static async_request *read_request(const optim_async *async, const char *message)
{
    const optim_curvature *c = async->curvature;
    const psgd_optimizer *self = async->self;
    async_request *r = &async->requests[0];
    request_head head;
    memcpy(&head, message, sizeof head);
    const request_lane *lanes = (const request_lane *)(const void *)(message + c->at_lanes);
    const int64_t *present = (const int64_t *)(const void *)(message + c->at_present);
    const int64_t *rows = (const int64_t *)(const void *)(message + c->at_rows);
    r->step = head.step;
    r->seed = head.seed;
    r->product = 0;
    for (int i = 0; i < async->part_count; i++) r->present[i] = present[i];
    for (int i = 0; i < async->lane_count; i++) {
        r->slot[i] = lanes[i].asked ? 0 : -1;
        if (lanes[i].asked) read_lane(async, message, &lanes[i], i, rows);
        if (!self->joint) rows += self->parts[i].rows_max;
    }
    memcpy(async->theta[0][0], message + c->at_theta, (size_t)self->total * sizeof(real));
    const char *at = message + c->at_kept;
    for (int d = 0; d < c->data_ranks; d++) {
        c->kept_list[d] = at;
        at = (d == 0 ? message : at) + (curvature_request_bytes(c, d) + 63) / 64 * 64;
    }
    return r;
}

/* All curvature ranks. What each of them has fitted, to rank 0 of them. */
static psgd_status collect_fitted(const optim_async *async, const async_request *r)
{
    double *fitted = async->curvature->fitted;
    for (int i = 0; i < async->lane_count; i++) {
        const async_slot *slot = &async->lanes[i].slots[0];
        fitted[i] = r->slot[i] >= 0 && !slot->failure && slot->fitted;
    }
    return psgd_comm_sum(comm_of(async), PSGD_F64, async->lane_count, fitted);
}

/* All curvature ranks. The tiles that others have of a preconditioner, into its state on rank 0. */
static psgd_status collect_tiles(const optim_async *async, int lane, char *state)
{
    const optim_ranks *ranks = async->self->ranks;
    const psgd_precond *fit = async->lanes[lane].fit;
    for (int k = 0; k < fit->tile_count; k++) {
        int owner = ranks->pieces[ranks->first[lane] + k].owner;
        char *at = state + psgd__precond_tile_at(fit, k);
        if (owner <= 0) continue;
        if (owner == ranks->comm->rank) PSGD_TRY(psgd_precond_state_save(fit->tiles[k], at));
        PSGD_TRY(psgd__comm_send(ranks->comm, owner, 0, fit->tile_bytes[k], at));
    }
    return PSGD_OK;
}

/* All curvature ranks. The Q of a lane, on rank 0 of them. */
static psgd_status collect_lane(const optim_async *async, int i, char *state)
{
    const psgd_optimizer *self = async->self;
    const psgd_precond *fit = async->lanes[i].fit;
    if (fit) PSGD_TRY(psgd_precond_state_save(fit, state));
    if (!self->ranks || self->joint) return PSGD_OK;
    if (self->parts[i].spread) return collect_tiles(async, i, state);
    int owner = self->parts[i].owner;
    return owner <= 0 ? PSGD_OK : psgd__comm_send(self->ranks->comm, owner, 0, curvature_lane_bytes(async, i), state);
}

/* The places of the lanes in the replies to all data ranks, one reply after the other. */
static void put_lane(const optim_async *async, const async_request *r, int lane, char *reply)
{
    const optim_curvature *c = async->curvature;
    for (int d = 0; d < c->data_ranks; d++) {
        const char *holds = c->holds + (int64_t)d * async->lane_count;
        char *at = reply + sizeof(reply_head) + (size_t)async->lane_count * sizeof(int64_t);
        for (int i = 0; i < lane; i++) {
            if (r->slot[i] >= 0 && holds[i]) at += curvature_lane_bytes(async, i);
        }
        if (holds[lane]) memcpy(at, c->lane, (size_t)curvature_lane_bytes(async, lane));
        reply += (curvature_reply_bytes(async, d, r->slot) + 63) / 64 * 64;
    }
}

static reply_head head_of(const optim_async *async, const async_request *r)
{
    for (int i = 0; i < async->lane_count; i++) {
        const async_slot *slot = &async->lanes[i].slots[0];
        if (r->slot[i] >= 0) return (reply_head){slot->failure, slot->code, slot->part};
    }
    return (reply_head){0};
}

/* All curvature ranks; rank 0 of them sends. */
static psgd_status reply_to(const optim_async *async, const async_request *r, int64_t n)
{
    optim_curvature *c = async->curvature;
    int place = CURVATURE_PLACES + (int)(n % CURVATURE_PLACES);
    char *reply = c->reply[n % CURVATURE_PLACES], *at = reply;
    bool first = c->all->rank == c->data_ranks;
    if (n >= CURVATURE_PLACES) PSGD_TRY(psgd__comm_finish(c->all, place));
    curvature_clear(c, place);
    PSGD_TRY(collect_fitted(async, r));
    for (int d = 0; first && d < c->data_ranks; d++) {
        int64_t bytes = curvature_reply_bytes(async, d, r->slot);
        reply_head head = head_of(async, r);
        memcpy(at, &head, sizeof head);
        int64_t *flags = (int64_t *)(void *)(at + sizeof head);
        for (int i = 0; i < async->lane_count; i++) flags[i] = c->fitted[i] > 0;
        c->all->out[place][d] = (psgd_message){at, bytes};
        at += (bytes + 63) / 64 * 64;
    }
    for (int i = 0; i < async->lane_count; i++) {
        if (r->slot[i] < 0) continue;
        PSGD_TRY(collect_lane(async, i, c->lane));
        if (first) put_lane(async, r, i, reply);
    }
    return psgd__comm_start(c->all, place);
}

static psgd_status serve(optim_async *async, int64_t n)
{
    optim_curvature *c = async->curvature;
    async_request *r = read_request(async, c->request[n % CURVATURE_PLACES]);
    c->status = PSGD_OK;
    PSGD_TYPED(psgd__optim_evaluate_delayed)(async, r, 0);
    PSGD_TRY(c->status);
    PSGD_TYPED(psgd__optim_fit_delayed)(async, r);
    return reply_to(async, r, n);
}

psgd_status PSGD_TYPED(psgd__optim_serve_curvature)(psgd_optimizer *self)
{
    optim_curvature *c = self->async ? self->async->curvature : NULL;
    if (!c || !c->serves || c->ended) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "serve_curvature is for curvature ranks, once, after "
                                             "psgd_optimizer_bind_curvature");
    }
    int64_t n = 0;
    c->ended = true;
    PSGD_TRY(start_request(c, 0));
    for (;; n++) {
        request_head head;
        PSGD_TRY(psgd__comm_finish(c->all, (int)(n % CURVATURE_PLACES)));
        memcpy(&head, c->request[n % CURVATURE_PLACES], sizeof head);
        if (head.end) break;
        PSGD_TRY(start_request(c, n + 1));
        PSGD_TRY(serve(self->async, n));
    }
    for (int k = 0; k < CURVATURE_PLACES && k < n; k++) PSGD_TRY(psgd__comm_finish(c->all, CURVATURE_PLACES + k));
    return PSGD_OK;
}
