/* Sums, shares and agreements of ranks, made of one kind of exchange, in which every rank sends to every other.
 *
 * A sum is a reduce-scatter and an all-gather. Of its segment a rank receives the terms of all others, a chunk at a
 * time, and adds them in the order of the tree; the next chunk travels in the meantime. */
#include "comm/comm.h"
#include "core/dtype.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 1 << 18, SENTENCE = 512 }; /* bytes of a chunk of one rank's segment */

psgd_status psgd_comm_create(const psgd_context *context, int rank, int size, const psgd_comm_ops *ops, void *data,
                             psgd_comm **comm)
{
    psgd_comm *self = NULL;
    psgd_status status = PSGD_OK;
    if (comm) *comm = NULL;
    if (!comm || !ops || !ops->exchange || !ops->wait || size < 1 || rank < 0 || rank >= size) {
        status = psgd__fail(PSGD_ERR_ARGUMENT, "a comm needs a table with exchange and wait, a size of at least 1 and "
                                               "a rank below it");
    } else {
        self = psgd__alloc(context, 1, sizeof *self);
        int64_t lists = size * (int64_t)(2 * PSGD_COMM_SLOTS * sizeof(psgd_message) + sizeof(int64_t));
        char *block = psgd__alloc(context, lists + 2 * (int64_t)size * CHUNK, 1);
        if (!self || !block) {
            psgd__free(context, self);
            psgd__free(context, block);
            status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a comm of %d ranks", size);
        } else {
            *self = (psgd_comm){.context = context, .rank = rank, .size = size, .ops = ops, .data = data};
            self->scratch = block;
            psgd_message *list = (psgd_message *)(void *)(block + 2 * (int64_t)size * CHUNK);
            for (int k = 0; k < PSGD_COMM_SLOTS; k++) {
                self->out[k] = list + 2 * k * size;
                self->in[k] = list + (2 * k + 1) * size;
            }
            self->counts = (int64_t *)(void *)(list + 2 * PSGD_COMM_SLOTS * size);
        }
    }
    if (status != PSGD_OK && ops && ops->free) ops->free(data);
    if (status == PSGD_OK) *comm = self;
    return status;
}

void psgd_comm_free(psgd_comm *self)
{
    if (!self) return;
    if (self->ops->free) self->ops->free(self->data);
    psgd__free(self->context, self->scratch);
    psgd__free(self->context, self);
}

psgd_status psgd_comm_fail(psgd_status status, const char *sentence)
{
    return psgd__fail(status, "%s", sentence ? sentence : "");
}

int psgd_comm_rank(const psgd_comm *self)
{
    return self ? self->rank : 0;
}

int psgd_comm_size(const psgd_comm *self)
{
    return self ? self->size : 1;
}

int64_t psgd_comm_sent(const psgd_comm *self)
{
    return self ? self->sent : 0;
}

void psgd_comm_stop(psgd_comm *self, const char *sentence)
{
    if (self && self->ops->stop) self->ops->stop(self->data, sentence ? sentence : "");
}

psgd_status psgd__comm_start(psgd_comm *self, int slot)
{
    for (int r = 0; r < self->size; r++) self->sent += r == self->rank ? 0 : self->out[slot][r].bytes;
    return self->ops->exchange(self->data, slot, self->out[slot], self->in[slot]);
}

psgd_status psgd__comm_finish(psgd_comm *self, int slot)
{
    return self->ops->wait(self->data, slot);
}

void psgd__comm_poll(psgd_comm *self, int slot)
{
    if (self->ops->poll) self->ops->poll(self->data, slot);
}

/* a <- a + b */
static void add(psgd_dtype dtype, int64_t count, void *a, const void *b)
{
    if (dtype == PSGD_F64) {
        double *to = a;
        const double *from = b;
        for (int64_t i = 0; i < count; i++) to[i] += from[i];
    } else {
        float *to = a;
        const float *from = b;
        for (int64_t i = 0; i < count; i++) to[i] += from[i];
    }
}

static psgd_status check_sum(psgd_dtype dtype, int64_t count, const void *x)
{
    PSGD_TRY(psgd__check_dtype(dtype));
    if (count >= 0 && (x || count == 0)) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "a sum over ranks needs an array and how long it is");
}

/* One reduce-scatter: where segments start, and where the sum is at. */
typedef struct reduction {
    psgd_comm *comm;
    const int64_t *counts;
    char *x;
    psgd_dtype dtype;
    int64_t element, longest;
} reduction;

/* Elements of rank r's segment in this chunk. */
static int64_t part_of(const reduction *s, int r, int64_t from)
{
    int64_t chunk = CHUNK / s->element, left = s->counts[r] - from;
    return left < 0 ? 0 : left < chunk ? left : chunk;
}

static psgd_status start_chunk(const reduction *s, int64_t from, int slot)
{
    psgd_comm *self = s->comm;
    char *segment = s->x;
    int64_t own = part_of(s, self->rank, from);
    for (int r = 0; r < self->size; r++) {
        char *room = self->scratch + ((int64_t)slot * self->size + r) * CHUNK;
        self->out[slot][r] = (psgd_message){segment + from * s->element, part_of(s, r, from) * s->element};
        self->in[slot][r] = (psgd_message){room, own * s->element};
        segment += s->counts[r] * s->element;
    }
    return psgd__comm_start(self, slot);
}

static psgd_status finish_chunk(const reduction *s, int64_t from, int slot)
{
    psgd_comm *self = s->comm;
    PSGD_TRY(psgd__comm_finish(self, slot));
    int64_t count = part_of(s, self->rank, from);
    psgd_message *term = self->in[slot];
    char *own = self->out[slot][self->rank].data;
    term[self->rank].data = own;
    for (int stride = 1; stride < self->size; stride *= 2) {
        for (int r = 0; r + stride < self->size; r += 2 * stride) {
            add(s->dtype, count, term[r].data, term[r + stride].data);
        }
    }
    if (term[0].data != own) memcpy(own, term[0].data, (size_t)(count * s->element));
    return PSGD_OK;
}

/* Segments as even as possible, the first ones longer by one, of what these segments are together. */
static const int64_t *even_counts(psgd_comm *self, const int64_t *counts)
{
    int64_t total = 0;
    for (int r = 0; r < self->size; r++) total += counts[r];
    for (int r = 0; r < self->size; r++) self->counts[r] = total / self->size + (r < total % self->size);
    return self->counts;
}

/* The owner of a long segment would receive it from every other rank, size - 1 times. Via even segments no rank moves
 * more than all of x once, plus its own segment. */
static bool is_uneven(const psgd_comm *self, const int64_t *counts)
{
    double total = 0, longest = 0;
    for (int r = 0; r < self->size; r++) {
        total += (double)counts[r];
        if ((double)counts[r] > longest) longest = (double)counts[r];
    }
    bool is_even = longest <= total / self->size + 1; /* to rounding */
    return !is_even && (self->size - 1) * longest > total + longest;
}

/* Rank a has the elements of its segment by one list; afterwards it has those of its segment by the other. */
static psgd_status redistribute(psgd_comm *self, int64_t element, const int64_t *from, const int64_t *to, char *x)
{
    int64_t own_from = 0, own_to = 0, at_from = 0, at_to = 0;
    for (int r = 0; r < self->rank; r++) own_from += from[r], own_to += to[r];
    int64_t end_from = own_from + from[self->rank], end_to = own_to + to[self->rank];
    for (int r = 0; r < self->size; r++) {
        int64_t next_from = at_from + from[r], next_to = at_to + to[r];
        int64_t out = own_from > at_to ? own_from : at_to, out_end = end_from < next_to ? end_from : next_to;
        int64_t in = own_to > at_from ? own_to : at_from, in_end = end_to < next_from ? end_to : next_from;
        self->out[0][r] = (psgd_message){x + out * element, out_end > out ? (out_end - out) * element : 0};
        self->in[0][r] = (psgd_message){x + in * element, in_end > in ? (in_end - in) * element : 0};
        at_from = next_from;
        at_to = next_to;
    }
    PSGD_TRY(psgd__comm_start(self, 0));
    return psgd__comm_finish(self, 0);
}

psgd_status psgd_comm_sum_to(psgd_comm *self, psgd_dtype dtype, const int64_t *counts, void *x)
{
    if (!self || self->size == 1) return PSGD_OK;
    if (!counts) return psgd__fail(PSGD_ERR_ARGUMENT, "a sum over ranks needs the lengths of their segments");
    PSGD_TRY(check_sum(dtype, 0, x));
    if (is_uneven(self, counts)) {
        const int64_t *even = even_counts(self, counts);
        PSGD_TRY(psgd_comm_sum_to(self, dtype, even, x));
        return redistribute(self, (int64_t)psgd_dtype_size(dtype), even, counts, x);
    }
    reduction s = {self, counts, x, dtype, (int64_t)psgd_dtype_size(dtype), 0};
    for (int r = 0; r < self->size; r++) {
        PSGD_TRY(check_sum(dtype, counts[r], x));
        if (counts[r] > s.longest) s.longest = counts[r];
    }
    int64_t chunk = CHUNK / s.element;
    if (s.longest == 0) return PSGD_OK;
    PSGD_TRY(start_chunk(&s, 0, 0));
    for (int64_t from = 0, k = 0; from < s.longest; from += chunk, k++) {
        if (from + chunk < s.longest) PSGD_TRY(start_chunk(&s, from + chunk, (int)((k + 1) & 1)));
        PSGD_TRY(finish_chunk(&s, from, (int)(k & 1)));
    }
    return PSGD_OK;
}

psgd_status psgd_comm_share(psgd_comm *self, int64_t element, const int64_t *counts, void *x)
{
    if (!self || self->size == 1) return PSGD_OK;
    if (!counts || element < 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a share of ranks needs the lengths of their segments");
    }
    if (is_uneven(self, counts)) {
        const int64_t *even = even_counts(self, counts);
        PSGD_TRY(redistribute(self, element, counts, even, x));
        return psgd_comm_share(self, element, even, x);
    }
    char *segment = x, *own = x;
    for (int r = 0; r < self->rank; r++) own += counts[r] * element;
    for (int r = 0; r < self->size; r++) {
        self->out[0][r] = (psgd_message){own, counts[self->rank] * element};
        self->in[0][r] = (psgd_message){segment, counts[r] * element};
        segment += counts[r] * element;
    }
    PSGD_TRY(psgd__comm_start(self, 0));
    return psgd__comm_finish(self, 0);
}

/* Segments of equal length, the first ones longer by one. */
psgd_status psgd_comm_sum(psgd_comm *self, psgd_dtype dtype, int64_t count, void *x)
{
    if (!self || self->size == 1) return PSGD_OK;
    PSGD_TRY(check_sum(dtype, count, x));
    for (int r = 0; r < self->size; r++) self->counts[r] = count / self->size + (r < count % self->size);
    PSGD_TRY(psgd_comm_sum_to(self, dtype, self->counts, x));
    return psgd_comm_share(self, (int64_t)psgd_dtype_size(dtype), self->counts, x);
}

psgd_status psgd_comm_broadcast(psgd_comm *self, int root, int64_t bytes, void *x)
{
    if (root < 0 || root >= psgd_comm_size(self) || bytes < 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a broadcast comes from a rank below %d, not %d", psgd_comm_size(self),
                          root);
    }
    if (!self || self->size == 1) return PSGD_OK;
    for (int r = 0; r < self->size; r++) {
        self->out[0][r] = (psgd_message){x, self->rank == root ? bytes : 0};
        self->in[0][r] = (psgd_message){x, r == root && self->rank != root ? bytes : 0};
    }
    PSGD_TRY(psgd__comm_start(self, 0));
    return psgd__comm_finish(self, 0);
}

psgd_status psgd__comm_send(psgd_comm *self, int from, int to, int64_t bytes, void *x)
{
    if (!self || self->size == 1 || from == to) return PSGD_OK;
    for (int r = 0; r < self->size; r++) {
        self->out[0][r] = (psgd_message){x, self->rank == from && r == to ? bytes : 0};
        self->in[0][r] = (psgd_message){x, self->rank == to && r == from ? bytes : 0};
    }
    PSGD_TRY(psgd__comm_start(self, 0));
    return psgd__comm_finish(self, 0);
}

/* One number of every rank to all; all has room for size of them. */
static psgd_status gather(psgd_comm *self, int32_t own, int32_t *all)
{
    for (int r = 0; r < self->size; r++) {
        self->out[0][r] = (psgd_message){&all[self->rank], sizeof own};
        self->in[0][r] = (psgd_message){&all[r], sizeof own};
    }
    all[self->rank] = own;
    PSGD_TRY(psgd__comm_start(self, 0));
    return psgd__comm_finish(self, 0);
}

psgd_status psgd_comm_barrier(psgd_comm *self)
{
    if (!self || self->size == 1) return PSGD_OK;
    return gather(self, 0, (int32_t *)(void *)self->scratch);
}

psgd_status psgd_comm_agree(psgd_comm *self, psgd_status status)
{
    if (!self || self->size == 1) return status;
    int32_t *all = (int32_t *)(void *)self->scratch;
    char sentence[SENTENCE];
    snprintf(sentence, sizeof sentence, "%.*s", SENTENCE - 1, psgd_last_error());
    PSGD_TRY(gather(self, (int32_t)status, all));
    for (int r = 0; r < self->size; r++) {
        psgd_status theirs = (psgd_status)all[r];
        if (theirs == PSGD_OK) continue;
        PSGD_TRY(psgd_comm_broadcast(self, r, SENTENCE, sentence));
        return psgd__fail(theirs, "rank %d: %s", r, sentence);
    }
    return PSGD_OK;
}

int psgd_tree_depth(int64_t count)
{
    int depth = 0;
    while (count > 0) {
        depth++;
        count /= 2;
    }
    return depth;
}

/* As a binary counter: part k is occupied where bit k of the number of terms so far is set. */
void psgd_tree_add(psgd_dtype dtype, int64_t elements, int64_t i, void *term, void *const *part)
{
    size_t bytes = (size_t)elements * psgd_dtype_size(dtype);
    int k = 0;
    const void *sum = term;
    for (; i >> k & 1; k++) {
        add(dtype, elements, part[k], sum);
        sum = part[k];
    }
    memcpy(part[k], sum, bytes);
}

void psgd_tree_end(psgd_dtype dtype, int64_t elements, int64_t count, void *const *part)
{
    int k = 0, depth = psgd_tree_depth(count);
    while (k < depth && !(count >> k & 1)) k++;
    const void *sum = part[k];
    for (int j = k + 1; j < depth; j++) {
        if (!(count >> j & 1)) continue;
        add(dtype, elements, part[j], sum);
        sum = part[j];
    }
    if (sum != part[0]) memcpy(part[0], sum, (size_t)elements * psgd_dtype_size(dtype));
}
