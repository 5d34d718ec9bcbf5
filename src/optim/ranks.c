#include "optim/ranks.h"
#include "group/tiles.h"
#include "optim/optim.h"

#include <math.h>
#include <string.h>

/* Flops per element of a tensor up to which a preconditioner is on every rank: scan and diag are, what multiplies
 * matrices is not. */
enum { CHEAP = 64 };

psgd_status psgd__ranks_create(psgd_optimizer *self, psgd_comm *comm, int count)
{
    int size = psgd_comm_size(comm);
    if (size == 1) return PSGD_OK;
    optim_ranks *ranks = self->ranks = psgd__alloc(self->context, 1, sizeof *ranks);
    if (ranks) {
        ranks->comm = comm;
        ranks->owned = psgd__alloc(self->context, size, sizeof *ranks->owned);
        ranks->list = psgd__alloc(self->context, 2 * (int64_t)count, sizeof *ranks->list);
        ranks->first = psgd__alloc(self->context, (int64_t)count + 1, sizeof *ranks->first);
    }
    if (!ranks || !ranks->owned || !ranks->list || !ranks->first) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for an optimizer over %d ranks", size);
    }
    ranks->hs = ranks->list + count;
    return PSGD_OK;
}

/* Room for so many pieces more. */
static psgd_status make_room(psgd_optimizer *self, int more)
{
    optim_ranks *ranks = self->ranks;
    if (ranks->piece_count + more <= ranks->room) return PSGD_OK;
    int room = 2 * ranks->room + more + 8;
    rank_piece *pieces = psgd__alloc(self->context, room, sizeof *pieces);
    if (!pieces) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %d pieces of preconditioners", room);
    if (ranks->pieces) memcpy(pieces, ranks->pieces, (size_t)ranks->piece_count * sizeof *pieces);
    psgd__free(self->context, ranks->pieces);
    ranks->pieces = pieces;
    ranks->room = room;
    return PSGD_OK;
}

/* The next tensor as one piece. */
static psgd_status add_whole(psgd_optimizer *self, int tensor, double work)
{
    optim_ranks *ranks = self->ranks;
    PSGD_TRY(make_room(self, 1));
    ranks->pieces[ranks->piece_count++] = (rank_piece){
        .tensor = tensor, .tile = -1, .owner = -1, .work = work, .n = self->parts[tensor].n};
    ranks->first[tensor + 1] = ranks->piece_count;
    return PSGD_OK;
}

static double work_of(const psgd_tile *tile)
{
    double work = tile->update_flops + tile->apply_flops;
    return work > CHEAP * (double)tile->rows * (double)tile->columns ? work : 0;
}

/* Tiles are pieces where the first, which is the largest, is worth an owner. */
static psgd_status add_tiles(psgd_optimizer *self, int tensor, int count, const psgd_tile *tiles)
{
    optim_ranks *ranks = self->ranks;
    if (count == 1 || work_of(&tiles[0]) == 0) return add_whole(self, tensor, count == 1 ? work_of(&tiles[0]) : 0);
    PSGD_TRY(make_room(self, count));
    for (int k = 0; k < count; k++) {
        ranks->pieces[ranks->piece_count++] = (rank_piece){.tensor = tensor,
                                                           .tile = k,
                                                           .owner = -1,
                                                           .work = tiles[k].update_flops + tiles[k].apply_flops,
                                                           .n = tiles[k].rows * tiles[k].columns,
                                                           .at = tiles[k]};
    }
    ranks->first[tensor + 1] = ranks->piece_count;
    return PSGD_OK;
}

/* A spec that does not fit its shape is refused where its preconditioner is created. */
psgd_status psgd__ranks_cut(psgd_optimizer *self, int tensor, const char *group, int ndim, const int64_t *shape)
{
    int count;
    if (!self->ranks) return PSGD_OK;
    if (psgd_group_tiles(self->context, group, ndim, shape, self->dtype, 0, NULL, &count) != PSGD_OK) {
        return add_whole(self, tensor, 0);
    }
    psgd_tile *tiles = psgd__alloc(self->context, count, sizeof *tiles);
    if (!tiles) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %d tiles", count);
    psgd_status status = psgd_group_tiles(self->context, group, ndim, shape, self->dtype, count, tiles, &count);
    if (status == PSGD_OK) status = add_tiles(self, tensor, count, tiles);
    psgd__free(self->context, tiles);
    return status;
}

static bool is_here(const optim_ranks *ranks, const rank_piece *piece)
{
    return piece->owner < 0 || piece->owner == psgd_comm_rank(ranks->comm);
}

psgd_status psgd__ranks_assign(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return PSGD_OK;
    int count = ranks->piece_count;
    int *owners = psgd__alloc(self->context, count, sizeof *owners);
    ranks->each = psgd__alloc(self->context, count, sizeof *ranks->each);
    ranks->here = psgd__alloc(self->context, count, sizeof *ranks->here);
    if (!owners || !ranks->each || !ranks->here) {
        psgd__free(self->context, owners);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the owners of %d pieces", count);
    }
    for (int k = 0; k < count; k++) ranks->each[k] = ranks->pieces[k].work;
    psgd_comm_owners(psgd_comm_size(ranks->comm), count, ranks->each, owners);
    for (int k = 0; k < count; k++) {
        rank_piece *piece = &ranks->pieces[k];
        piece->owner = owners[k];
        ranks->here[k] = is_here(ranks, piece);
        if (piece->tile < 0) self->parts[piece->tensor].owner = owners[k];
    }
    psgd__free(self->context, owners);
    return PSGD_OK;
}

/* The first piece of a tensor whose tiles have owners, or NULL. */
static const rank_piece *tiles_of(const psgd_optimizer *self, int tensor)
{
    const rank_piece *first = self->ranks ? &self->ranks->pieces[self->ranks->first[tensor]] : NULL;
    return first && first->tile >= 0 ? first : NULL;
}

const bool *psgd__ranks_here(const psgd_optimizer *self, int tensor)
{
    return tiles_of(self, tensor) ? &self->ranks->here[self->ranks->first[tensor]] : NULL;
}

/* Places of all pieces: those of rank 0, of rank 1, .., then those of all ranks. */
static void place(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    int size = psgd_comm_size(ranks->comm);
    int64_t at = 0;
    for (int r = 0; r <= size; r++) {
        int64_t from = at;
        for (int k = 0; k < ranks->piece_count; k++) {
            rank_piece *piece = &ranks->pieces[k];
            if (piece->owner != (r < size ? r : -1)) continue;
            piece->place = at;
            at += piece->n;
        }
        *(r < size ? &ranks->owned[r] : &ranks->shared) = at - from;
    }
}

psgd_status psgd__ranks_build(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return PSGD_OK;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype), bytes, pairs = psgd_optimizer_pairs(self), spread = 0;
    if (ranks->piece_count == 0) { /* no preconditioners of their own */
        for (int i = 0; i < self->part_count; i++) PSGD_TRY(add_whole(self, i, 0));
        PSGD_TRY(psgd__ranks_assign(self));
    }
    for (int i = 0; i < self->part_count; i++) {
        if (!tiles_of(self, i)) continue;
        self->parts[i].spread = true;
        self->parts[i].whole = spread;
        spread += self->parts[i].n;
    }
    if (self->undecided && self->with_products.fit.pairs > pairs) pairs = self->with_products.fit.pairs;
    bool products = optim_uses_products(self) || self->undecided;
    bool fits = psgd__mul_fits(self->total, element, &bytes) && psgd__mul_fits(bytes, pairs, &pairs);
    int64_t copies = fits && products ? pairs / bytes : 0;
    ranks->gradient = fits ? psgd__alloc(self->context, bytes, 1) : NULL;
    ranks->h = fits ? psgd__alloc(self->context, products ? pairs : 0, 1) : NULL;
    ranks->whole = fits ? psgd__alloc(self->context, spread, (size_t)element) : NULL;
    ranks->whole_h = fits ? psgd__alloc(self->context, copies * spread, (size_t)element) : NULL;
    if (!ranks->gradient || !ranks->h || !ranks->whole || !ranks->whole_h) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the sums of %lld parameters over %d ranks",
                          (long long)self->total, psgd_comm_size(ranks->comm));
    }
    place(self);
    return psgd__buckets_build(self, copies ? copies : 1);
}

void psgd__ranks_free(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return;
    psgd__buckets_free(self);
    psgd__free(self->context, ranks->owned);
    psgd__free(self->context, (void *)ranks->list);
    psgd__free(self->context, ranks->first);
    psgd__free(self->context, ranks->pieces);
    psgd__free(self->context, ranks->here);
    psgd__free(self->context, ranks->each);
    psgd__free(self->context, ranks->gradient);
    psgd__free(self->context, ranks->h);
    psgd__free(self->context, ranks->whole);
    psgd__free(self->context, ranks->whole_h);
    psgd__free(self->context, ranks);
}

void psgd__ranks_copy_tile(const psgd_optimizer *self, const rank_piece *piece, int64_t copies, char *tensor,
                           char *packed, bool back)
{
    const part *p = &self->parts[piece->tensor];
    int64_t element = (int64_t)psgd_dtype_size(self->dtype);
    tile_grid grid = {.rows = p->shape[0], .columns = psgd__part_width(p)};
    tile_place t = {piece->at.row, piece->at.column, piece->at.rows, piece->at.columns};
    for (int64_t c = 0; c < copies; c++) {
        tile_copy(&grid, t, element, tensor + c * p->n * element, packed + c * piece->n * element, back);
    }
}

void psgd__ranks_load(const psgd_optimizer *self, const rank_piece *piece, int64_t copies, const void *from, char *at)
{
    size_t bytes = (size_t)copies * (size_t)piece->n * psgd_dtype_size(self->dtype);
    if (!from) {
        memset(at, 0, bytes);
    } else if (piece->tile < 0) {
        memcpy(at, from, bytes);
    } else {
        psgd__ranks_copy_tile(self, piece, copies, (char *)from, at, false);
    }
}

/* Where the sums are: in a slab, or of tensors whose tiles have owners in whole, put together again as far as they are
 * here. */
static void unpack(const psgd_optimizer *self, int64_t copies, const void *const *from, char *slab, char *whole,
                   const void **to)
{
    const optim_ranks *ranks = self->ranks;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype);
    for (int k = 0; k < ranks->piece_count; k++) {
        const rank_piece *piece = &ranks->pieces[k];
        const part *p = &self->parts[piece->tensor];
        char *at = slab + copies * piece->summed * element, *own = p->spread ? whole + copies * p->whole * element : at;
        if (p->spread && ranks->here[k]) psgd__ranks_copy_tile(self, piece, copies, own, at, true);
        to[piece->tensor] = from[piece->tensor] ? own : NULL;
    }
}

psgd_status psgd__ranks_sum(psgd_optimizer *self, const void *const **gradient, const void *const **h)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return PSGD_OK;
    bool products = *h && psgd_optimizer_wants_product(self);
    PSGD_TRY(psgd__buckets_sum(self, *gradient, products ? *h : NULL));
    unpack(self, 1, *gradient, ranks->gradient, ranks->whole, ranks->list);
    *gradient = ranks->list;
    if (!products) return PSGD_OK;
    unpack(self, psgd_optimizer_pairs(self), *h, ranks->h, ranks->whole_h, ranks->hs);
    *h = ranks->hs;
    return PSGD_OK;
}

void psgd__ranks_put(const psgd_optimizer *self, int tensor, double value)
{
    const optim_ranks *ranks = self->ranks;
    for (int k = ranks->first[tensor]; k < ranks->first[tensor + 1]; k++) ranks->each[k] = value;
}

/* What all ranks have is taken from rank 0. */
psgd_status psgd__ranks_collect(const psgd_optimizer *self)
{
    const optim_ranks *ranks = self->ranks;
    int rank = psgd_comm_rank(ranks->comm);
    for (int k = 0; k < ranks->piece_count; k++) {
        int owner = ranks->pieces[k].owner;
        if (rank != (owner < 0 ? 0 : owner)) ranks->each[k] = 0;
    }
    return psgd_comm_sum(ranks->comm, PSGD_F64, ranks->piece_count, ranks->each);
}

double psgd__ranks_max(const psgd_optimizer *self, int tensor)
{
    const optim_ranks *ranks = self->ranks;
    double max = ranks->each[ranks->first[tensor]];
    for (int k = ranks->first[tensor] + 1; k < ranks->first[tensor + 1]; k++) max = fmax(max, ranks->each[k]);
    return max;
}

/* The slab of gradients is free by now. */
psgd_status psgd__ranks_share(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return PSGD_OK;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype);
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < ranks->piece_count; k++) {
            const rank_piece *piece = &ranks->pieces[k];
            char *tensor = (char *)self->direction + self->parts[piece->tensor].from * element;
            char *slab = (char *)ranks->gradient + piece->place * element;
            if (piece->owner < 0 || (pass == 0) != ranks->here[k]) continue;
            if (pass == 0) {
                psgd__ranks_load(self, piece, 1, tensor, slab);
            } else if (piece->tile < 0) {
                memcpy(tensor, slab, (size_t)(piece->n * element));
            } else {
                psgd__ranks_copy_tile(self, piece, 1, tensor, slab, true);
            }
        }
        if (pass == 0) PSGD_TRY(psgd_comm_share(ranks->comm, element, ranks->owned, ranks->gradient));
    }
    return PSGD_OK;
}

psgd_status psgd__ranks_evaluated(psgd_optimizer *self, psgd_status status, double *loss, void *const *gradient,
                                  void *const *h)
{
    if (!self->ranks) return status;
    psgd_comm *comm = self->ranks->comm;
    PSGD_TRY(psgd_comm_agree(comm, status));
    if (loss) PSGD_TRY(psgd_comm_sum(comm, PSGD_F64, 1, loss));
    for (int i = 0; i < self->part_count; i++) {
        if (gradient) PSGD_TRY(psgd_comm_sum(comm, self->dtype, self->parts[i].n, gradient[i]));
        if (h) PSGD_TRY(psgd_comm_sum(comm, self->dtype, self->parts[i].n, h[i]));
    }
    return PSGD_OK;
}

int psgd_optimizer_owner(const psgd_optimizer *self, int tensor)
{
    if (!self || !self->ranks || tensor < 0 || tensor >= self->part_count) return -1;
    return self->parts[tensor].owner;
}

int psgd_optimizer_tile_owner(const psgd_optimizer *self, int tensor, int tile)
{
    if (!self || !self->ranks || tensor < 0 || tensor >= self->part_count) return -1;
    const optim_ranks *ranks = self->ranks;
    int count = ranks->first[tensor + 1] - ranks->first[tensor];
    return tiles_of(self, tensor) && tile >= 0 && tile < count ? ranks->pieces[ranks->first[tensor] + tile].owner
                                                               : self->parts[tensor].owner;
}

/* The slab of products is free: there is a v before there is a product. */
psgd_status psgd__ranks_share_probe(const psgd_optimizer *self, int tensor, void *v)
{
    const optim_ranks *ranks = self->ranks;
    int64_t pairs = psgd_optimizer_pairs(self), element = (int64_t)psgd_dtype_size(self->dtype);
    for (int k = ranks ? ranks->first[tensor] : 0; ranks && k < ranks->first[tensor + 1]; k++) {
        const rank_piece *piece = &ranks->pieces[k];
        char *at = piece->tile < 0 ? v : ranks->h;
        if (piece->owner < 0) continue;
        if (piece->tile >= 0 && ranks->here[k]) psgd__ranks_copy_tile(self, piece, pairs, v, at, false);
        PSGD_TRY(psgd_comm_broadcast(ranks->comm, piece->owner, pairs * piece->n * element, at));
        if (piece->tile >= 0) psgd__ranks_copy_tile(self, piece, pairs, v, at, true);
    }
    return PSGD_OK;
}
