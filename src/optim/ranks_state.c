/* Tensors whose tiles have owners: their saved state, and how their preconditioners do. */
#include "optim/optim.h"
#include "comm/comm.h"

#include <math.h>
#include <string.h>

/* The method's state of a tile and that of its preconditioner, one after the other. */
static psgd_status pack(const psgd_optimizer *self, const rank_piece *piece, int64_t copies, char *to)
{
    const part *p = &self->parts[piece->tensor];
    int64_t element = (int64_t)psgd_dtype_size(self->dtype);
    psgd__ranks_copy_tile(self, piece, copies, p->state, to, false);
    return psgd_precond_state_save(p->precond->tiles[piece->tile], to + copies * piece->n * element);
}

static void unpack(const psgd_optimizer *self, const rank_piece *piece, int64_t copies, char *from, char *state,
                   char *precond)
{
    const psgd_precond *whole = self->parts[piece->tensor].precond;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype);
    psgd__ranks_copy_tile(self, piece, copies, state, from, true);
    memcpy(precond + psgd__precond_tile_at(whole, piece->tile), from + copies * piece->n * element,
           (size_t)whole->tile_bytes[piece->tile]);
}

psgd_status psgd__ranks_fetch_tiles(const psgd_optimizer *self, int tensor, char *state, char *precond)
{
    const optim_ranks *ranks = self->ranks;
    const part *p = &self->parts[tensor];
    int64_t copies = p->state_size / p->n, element = (int64_t)psgd_dtype_size(self->dtype), room = 0;
    int rank = psgd_comm_rank(ranks->comm);
    for (int k = 0; k < p->precond->tile_count; k++) {
        const rank_piece *piece = &ranks->pieces[ranks->first[tensor] + k];
        int64_t bytes = copies * piece->n * element + p->precond->tile_bytes[k];
        if (bytes > room) room = bytes;
    }
    char *buffer = psgd__alloc(self->context, room, 1);
    psgd_status status = psgd_comm_agree(
        ranks->comm,
        buffer ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld bytes of state", (long long)room));
    for (int k = 0; status == PSGD_OK && k < p->precond->tile_count; k++) {
        const rank_piece *piece = &ranks->pieces[ranks->first[tensor] + k];
        int64_t bytes = copies * piece->n * element + p->precond->tile_bytes[k];
        if (piece->owner <= 0) continue;
        if (piece->owner == rank) status = pack(self, piece, copies, buffer);
        if (status == PSGD_OK) status = psgd__comm_send(ranks->comm, piece->owner, 0, bytes, buffer);
        if (status == PSGD_OK && rank == 0) unpack(self, piece, copies, buffer, state, precond);
    }
    psgd__free(self->context, buffer);
    return status;
}

/* What is known of one preconditioner, or of all tiles of one. */
typedef struct health {
    double updates, skipped, smallest, largest;
} health;

enum { HEALTHS = sizeof(health) / sizeof(double) };

static psgd_status measure(const psgd_precond *precond, health *to)
{
    *to = (health){.updates = (double)psgd_precond_updates(precond), .skipped = (double)psgd_precond_skipped(precond)};
    return PSGD_PICK(precond->dtype, psgd__precond_range)(precond, &to->smallest, &to->largest);
}

static health combine(health a, health b)
{
    return (health){fmax(a.updates, b.updates), a.skipped + b.skipped, fmin(a.smallest, b.smallest),
                    fmax(a.largest, b.largest)};
}

/* Of one piece, from its owner. */
static psgd_status piece_health(const psgd_optimizer *self, int tensor, int tile, health *to)
{
    const psgd_precond *precond = self->parts[tensor].precond;
    int owner = psgd_optimizer_tile_owner(self, tensor, tile);
    psgd_comm *comm = self->ranks ? self->ranks->comm : NULL;
    if (precond && tile >= 0) precond = precond->tiles[tile];
    psgd_status status = precond ? measure(precond, to) : PSGD_OK;
    if (!comm) return status;
    PSGD_TRY(psgd_comm_agree(comm, status));
    return psgd_comm_broadcast(comm, owner < 0 ? 0 : owner, HEALTHS * sizeof(double), to);
}

psgd_status psgd_optimizer_health(const psgd_optimizer *self, int tensor, double *updates, double *skipped,
                                  double *condition)
{
    if (!self || tensor < 0 || tensor >= self->part_count || !updates || !skipped || !condition) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "health needs an optimizer, one of its tensors (not %d) and places",
                          tensor);
    }
    const part *p = &self->parts[tensor];
    health all = {0};
    if (self->joint) {
        PSGD_TRY(measure(self->joint, &all));
    } else if (!self->kind->fits) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s has no preconditioners", self->kind->name);
    } else if (p->spread) {
        for (int k = 0; k < p->precond->tile_count; k++) {
            health own;
            PSGD_TRY(piece_health(self, tensor, k, &own));
            all = k ? combine(all, own) : own;
        }
    } else {
        PSGD_TRY(piece_health(self, tensor, -1, &all));
    }
    *updates = all.updates;
    *skipped = all.skipped;
    *condition = all.largest / all.smallest;
    return PSGD_OK;
}
