/* Sums of gradients and products in buckets: tensors from the last to the first, as the backward pass comes to them, a
 * megabyte at a time. A bucket goes out when its tensors are ready (psgd_optimizer_ready) and those before it have
 * gone, so that their order is the same on all ranks; what is left goes out with the step. */
#include "comm/background.h"
#include "optim/optim.h"

#include <string.h>

static const int64_t BUCKET = 1 << 20; /* bytes of gradients from which on a bucket is full */

/* The bucket of each tensor. */
static void fill_buckets(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    int64_t bytes = 0, element = (int64_t)psgd_dtype_size(self->dtype);
    int bucket = 0;
    for (int i = self->part_count - 1; i >= 0; i--) {
        if (bytes >= BUCKET) {
            bucket++;
            bytes = 0;
        }
        self->parts[i].bucket = bucket;
        bytes += self->parts[i].n * element;
    }
    ranks->bucket_count = bucket + 1;
}

/* Places in a slab: bucket after bucket, in each the pieces of rank 0, of rank 1, .., then those of all ranks. */
static void place_pieces(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    int size = psgd_comm_size(ranks->comm);
    int64_t at = 0;
    for (int b = 0; b < ranks->bucket_count; b++) {
        rank_bucket *bucket = &ranks->buckets[b];
        bucket->from = at;
        for (int r = 0; r <= size; r++) {
            int64_t from = at;
            for (int k = 0; k < ranks->piece_count; k++) {
                rank_piece *piece = &ranks->pieces[k];
                if (self->parts[piece->tensor].bucket != b || piece->owner != (r < size ? r : -1)) continue;
                piece->summed = at;
                at += piece->n;
            }
            if (r < size) {
                bucket->counts[r] = at - from;
                bucket->owned += at - from;
            } else {
                bucket->shared = at - from;
            }
        }
    }
}

psgd_status psgd__buckets_build(psgd_optimizer *self, int64_t pairs)
{
    optim_ranks *ranks = self->ranks;
    int size = psgd_comm_size(ranks->comm);
    fill_buckets(self);
    ranks->buckets = psgd__alloc(self->context, ranks->bucket_count, sizeof *ranks->buckets);
    ranks->bucket_counts = psgd__alloc(self->context, 2 * (int64_t)ranks->bucket_count * size, sizeof(int64_t));
    ranks->ready = psgd__alloc(self->context, self->part_count, sizeof *ranks->ready);
    if (!ranks->buckets || !ranks->bucket_counts || !ranks->ready) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %d buckets", ranks->bucket_count);
    }
    for (int b = 0; b < ranks->bucket_count; b++) {
        ranks->buckets[b].counts = ranks->bucket_counts + 2 * (int64_t)b * size;
        ranks->buckets[b].h_counts = ranks->buckets[b].counts + size;
    }
    place_pieces(self);
    for (int b = 0; b < ranks->bucket_count; b++) {
        for (int r = 0; r < size; r++) ranks->buckets[b].h_counts[r] = pairs * ranks->buckets[b].counts[r];
    }
    return psgd__background_create(ranks->comm, 2 * ranks->bucket_count, &ranks->background);
}

void psgd__buckets_free(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    psgd__background_free(ranks->background);
    psgd__free(self->context, ranks->buckets);
    psgd__free(self->context, ranks->bucket_counts);
    psgd__free(self->context, ranks->ready);
}

static comm_job job_of(const psgd_optimizer *self, const rank_bucket *bucket, bool h)
{
    const optim_ranks *ranks = self->ranks;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype), copies = h ? psgd_optimizer_pairs(self) : 1;
    char *x = (char *)(h ? ranks->h : ranks->gradient) + copies * bucket->from * element;
    return (comm_job){.dtype = self->dtype,
                      .counts = h ? bucket->h_counts : bucket->counts,
                      .x = x,
                      .count = copies * bucket->shared,
                      .shared = x + copies * bucket->owned * element};
}

/* Later buckets follow those that are on their way already. */
static psgd_status send_bucket(psgd_optimizer *self, bool behind, bool products)
{
    optim_ranks *ranks = self->ranks;
    const rank_bucket *bucket = &ranks->buckets[ranks->sent++];
    for (int h = 0; h < (products ? 2 : 1); h++) {
        comm_job job = job_of(self, bucket, h);
        if (behind) {
            psgd__background_add(ranks->background, &job);
            ranks->behind = true;
        } else {
            PSGD_TRY(psgd__comm_run(ranks->comm, &job));
        }
    }
    return PSGD_OK;
}

static bool is_ready(const psgd_optimizer *self, int bucket)
{
    for (int i = 0; i < self->part_count; i++) {
        if (self->parts[i].bucket == bucket && !self->ranks->ready[i]) return false;
    }
    return true;
}

/* A tensor into the slabs. */
static void load(psgd_optimizer *self, int tensor, const void *gradient, const void *h, bool products)
{
    optim_ranks *ranks = self->ranks;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype), pairs = psgd_optimizer_pairs(self);
    for (int k = ranks->first[tensor]; k < ranks->first[tensor + 1]; k++) {
        const rank_piece *piece = &ranks->pieces[k];
        psgd__ranks_load(self, piece, 1, gradient, (char *)ranks->gradient + piece->summed * element);
        if (products) psgd__ranks_load(self, piece, pairs, h, (char *)ranks->h + pairs * piece->summed * element);
    }
    ranks->ready[tensor] = true;
}

psgd_status psgd_optimizer_ready(psgd_optimizer *self, int tensor, const void *gradient, const void *h)
{
    if (!self || tensor < 0 || tensor >= self->part_count) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "ready needs an optimizer and one of its tensors, not %d", tensor);
    }
    optim_ranks *ranks = self->ranks;
    bool products = psgd_optimizer_wants_product(self);
    if (!ranks || !ranks->background || self->kind->searches || (products && !h)) return PSGD_OK;
    if (ranks->ready[tensor]) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s is ready already: a step comes first", self->parts[tensor].name);
    }
    load(self, tensor, gradient, h, products);
    while (ranks->sent < ranks->bucket_count && is_ready(self, ranks->sent)) {
        PSGD_TRY(send_bucket(self, true, products));
    }
    return PSGD_OK;
}

psgd_status psgd__buckets_sum(psgd_optimizer *self, const void *const *gradient, const void *const *h)
{
    optim_ranks *ranks = self->ranks;
    for (int i = self->part_count - 1; i >= 0; i--) {
        if (!ranks->ready[i]) load(self, i, gradient[i], h ? h[i] : NULL, h != NULL);
    }
    psgd_status status = PSGD_OK;
    while (ranks->sent < ranks->bucket_count && status == PSGD_OK) {
        status = send_bucket(self, ranks->behind, h != NULL);
    }
    if (ranks->behind) {
        psgd_status joined = psgd__background_join(ranks->background);
        if (status == PSGD_OK) status = joined;
    }
    ranks->sent = 0;
    ranks->behind = false;
    memset(ranks->ready, 0, (size_t)self->part_count * sizeof *ranks->ready);
    return status;
}

psgd_status psgd_optimizer_messages(const psgd_optimizer *self, double *seconds, double *waited)
{
    if (!self || !seconds || !waited) return psgd__fail(PSGD_ERR_ARGUMENT, "messages needs an optimizer and places");
    *seconds = *waited = 0;
    if (self->ranks) psgd__background_times(self->ranks->background, seconds, waited);
    return PSGD_OK;
}
