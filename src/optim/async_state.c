/* Pairs in flight as bytes: for each slot what it is, and the Q after its pair. The workers are done with all of them
 * before, so that neither v and h nor theta is needed. */
#include "optim/optim.h"

#include <string.h>

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
        if (slot->fitted) PSGD_TRY(psgd_precond_state_save(slot->result, bytes + sizeof head));
        bytes += (int64_t)sizeof head + precond_bytes;
    }
    return PSGD_OK;
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
        if (slot->fitted) {
            PSGD_TRY(psgd_precond_state_load(slot->result, precond_bytes, bytes + sizeof head));
            last = slot->result;
        }
        lane->count++;
    }
    PSGD_PICK(self->dtype, psgd__precond_copy)(last, lane->fit);
    return PSGD_OK;
}
