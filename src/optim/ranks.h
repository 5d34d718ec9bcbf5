/* An optimizer over ranks: who owns which tensor, sums of gradients to their owners, directions back to all.
 *
 * P stands between the two halves of an all-reduce: a gradient is summed to the owner of its preconditioner, who makes
 * the direction, and the directions are shared. So preconditioners that are spread over ranks cost no traffic beyond
 * that of plain data parallelism. Everything that is joint over all tensors (clipping, the test for non-finite values)
 * is then computed by every rank, from the same numbers.
 *
 * What has an owner is a piece: a tensor, or a tile of one whose group is tiles(G,a,b). */
#ifndef PSGD_OPTIM_RANKS_H
#define PSGD_OPTIM_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include <psgd/comm.h>
#include <psgd/group.h>
#include <psgd/optim.h>

typedef struct rank_piece {
    int tensor, tile; /* tile -1: the whole tensor */
    int owner;        /* -1: every rank */
    double work;      /* 0: cheap enough for every rank */
    int64_t n;        /* elements */
    int64_t place;    /* where it starts in a slab of directions, those of an owner one after the other */
    int64_t summed;   /* and in a slab of sums, bucket after bucket */
    psgd_tile at;     /* of a tile */
} rank_piece;

/* Tensors whose gradients are summed at once. */
typedef struct rank_bucket {
    int64_t from, owned, shared; /* elements: where it starts in a slab, of pieces with an owner, of the others */
    int64_t *counts, *h_counts;  /* [ranks] elements of the pieces of a rank; those times the pairs */
} rank_bucket;

typedef struct optim_ranks {
    psgd_comm *comm;
    int64_t *owned;     /* [ranks] elements of the pieces that a rank owns */
    int64_t shared;     /* elements of the pieces that all ranks advance: the end of a slab */
    rank_piece *pieces; /* of tensor 0, of tensor 1, .. */
    int piece_count, room;
    int *first;              /* [tensors + 1] the pieces of a tensor */
    bool *here;              /* [pieces] this rank has it */
    void *gradient, *h;      /* slabs of sums, and of directions; h only where products are taken */
    char *whole, *whole_h;   /* tensors whose tiles have owners, with the tiles of this rank and zeros elsewhere */
    const void **list, **hs; /* [tensors] into them */
    double *each;            /* [pieces] */
    rank_bucket *buckets;
    int bucket_count, sent; /* sent: of this step so far */
    int64_t *bucket_counts;
    bool *ready; /* [tensors] in the slabs, on this step */
    bool behind; /* a bucket of this step is summed on the thread of background */
    struct background *background;
} optim_ranks;

/* In this order while an optimizer is created. create: nothing for a single rank. cut: the pieces of the next tensor.
 * assign: the owner of each. build: memory, when everything else is known. */
psgd_status psgd__ranks_create(psgd_optimizer *self, psgd_comm *comm, int count);
psgd_status psgd__ranks_cut(psgd_optimizer *self, int tensor, const char *group, int ndim, const int64_t *shape);
psgd_status psgd__ranks_assign(psgd_optimizer *self);
psgd_status psgd__ranks_build(psgd_optimizer *self);
void psgd__ranks_free(psgd_optimizer *self);

/* ranks_buckets.c. sum, all ranks: of everything, into the slabs. */
psgd_status psgd__buckets_build(psgd_optimizer *self, int64_t pairs);
void psgd__buckets_free(psgd_optimizer *self);
psgd_status psgd__buckets_sum(psgd_optimizer *self, const void *const *gradient, const void *const *h);

/* A piece of an array of its tensor into a slab, copies times; zeros for NULL. */
void psgd__ranks_load(const psgd_optimizer *self, const rank_piece *piece, int64_t copies, const void *from, char *at);

/* The tiles of a tensor that this rank has; NULL: all of them. */
const bool *psgd__ranks_here(const psgd_optimizer *self, int tensor);

/* All ranks. Gradients and, where h is not NULL, products of all ranks: the lists are replaced by those of the sums,
 * which pieces that are this rank's have. */
psgd_status psgd__ranks_sum(psgd_optimizer *self, const void *const **gradient, const void *const **h);

/* A number for each piece, which its owner knows, to all ranks. put: that of a tensor, of all of its pieces here;
 * collect, all ranks: each[k] of the pieces here to all, where a sum with zeros is exact; max: over the pieces of a
 * tensor. */
void psgd__ranks_put(const psgd_optimizer *self, int tensor, double value);
psgd_status psgd__ranks_collect(const psgd_optimizer *self);
double psgd__ranks_max(const psgd_optimizer *self, int tensor);

/* All ranks. Directions from their owners to all. */
psgd_status psgd__ranks_share(psgd_optimizer *self);

/* All ranks. v of a tensor, of which the owner of a piece has that piece, to all. */
psgd_status psgd__ranks_share_probe(const psgd_optimizer *self, int tensor, void *v);

/* All ranks. status of a caller's function, and what it has written: loss and arrays of all tensors <- their sums. */
psgd_status psgd__ranks_evaluated(psgd_optimizer *self, psgd_status status, double *loss, void *const *gradient,
                                  void *const *h);

/* A tile of a tensor out of it, or back into it, copies times. */
void psgd__ranks_copy_tile(const psgd_optimizer *self, const rank_piece *piece, int64_t copies, char *tensor,
                           char *packed, bool back);

/* All ranks, for a tensor whose tiles have owners: what other ranks hold of its state to rank 0. state: the method's,
 * and precond that of its preconditioner, as rank 0 has saved them; not read elsewhere. */
psgd_status psgd__ranks_fetch_tiles(const psgd_optimizer *self, int tensor, char *state, char *precond);

#endif
