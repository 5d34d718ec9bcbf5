/* Tensors whose tiles have owners: their saved state, and the health of preconditioners. */
#include "optim/optim.h"
#include "comm/comm.h"

#include <math.h>
#include <string.h>

/* The preconditioner of a tensor in force (k 0) and those of its pairs in flight, NULL past the last; *at: where the
 * state of this one starts after that of the method, -1 where that is not saved. */
static const psgd_precond *precond_at(const psgd_optimizer *self, int tensor, int k, int64_t *at)
{
    const psgd_precond *in_force = self->parts[tensor].precond;
    *at = 0;
    return k == 0 ? in_force : psgd__async_in_flight(self, tensor, k - 1, psgd_precond_state_bytes(in_force), at);
}

/* Bytes of what travels of a tile: the method's state, and that of its preconditioners. */
static int64_t tile_bytes(const psgd_optimizer *self, const rank_piece *piece, int64_t copies)
{
    int64_t bytes = copies * piece->n * (int64_t)psgd_dtype_size(self->dtype), at;
    const psgd_precond *precond;
    for (int k = 0; (precond = precond_at(self, piece->tensor, k, &at)); k++) bytes += precond->tile_bytes[piece->tile];
    return bytes;
}

static psgd_status pack(const psgd_optimizer *self, const rank_piece *piece, int64_t copies, char *to)
{
    int64_t at;
    const psgd_precond *precond;
    psgd__ranks_copy_tile(self, piece, copies, self->parts[piece->tensor].state, to, false);
    to += copies * piece->n * (int64_t)psgd_dtype_size(self->dtype);
    for (int k = 0; (precond = precond_at(self, piece->tensor, k, &at)); k++) {
        PSGD_TRY(psgd_precond_state_save(precond->tiles[piece->tile], to));
        to += precond->tile_bytes[piece->tile];
    }
    return PSGD_OK;
}

static void unpack(const psgd_optimizer *self, const rank_piece *piece, int64_t copies, char *from, char *state,
                   char *preconds)
{
    int64_t at;
    const psgd_precond *precond;
    psgd__ranks_copy_tile(self, piece, copies, state, from, true);
    from += copies * piece->n * (int64_t)psgd_dtype_size(self->dtype);
    for (int k = 0; (precond = precond_at(self, piece->tensor, k, &at)); k++) {
        int64_t bytes = precond->tile_bytes[piece->tile];
        if (at >= 0) memcpy(preconds + at + psgd__precond_tile_at(precond, piece->tile), from, (size_t)bytes);
        from += bytes;
    }
}

psgd_status psgd__ranks_fetch_tiles(const psgd_optimizer *self, int tensor, char *state, char *precond)
{
    const optim_ranks *ranks = self->ranks;
    const part *p = &self->parts[tensor];
    int64_t copies = p->state_size / p->n, room = 0;
    int rank = psgd_comm_rank(ranks->comm);
    for (int k = 0; k < p->precond->tile_count; k++) {
        int64_t bytes = tile_bytes(self, &ranks->pieces[ranks->first[tensor] + k], copies);
        if (bytes > room) room = bytes;
    }
    char *buffer = psgd__alloc(self->context, room, 1);
    psgd_status status = psgd_comm_agree(
        ranks->comm,
        buffer ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld bytes of state", (long long)room));
    for (int k = 0; status == PSGD_OK && k < p->precond->tile_count; k++) {
        const rank_piece *piece = &ranks->pieces[ranks->first[tensor] + k];
        if (piece->owner <= 0) continue;
        if (piece->owner == rank) status = pack(self, piece, copies, buffer);
        if (status == PSGD_OK) {
            status = psgd__comm_send(ranks->comm, piece->owner, 0, tile_bytes(self, piece, copies), buffer);
        }
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
