#include "optim/optim.h"
#include "optim/ranks.h"
#include <psgd/group.h>

#include <math.h>
#include <string.h>

/* Flops per element of a tensor up to which a preconditioner is on every rank: scan and diag are, what multiplies
 * matrices is not. */
enum { CHEAP = 64 };

/* A spec that does not fit its shape is refused where its preconditioner is created. */
double psgd__ranks_work(const psgd_optimizer *self, const char *group, int ndim, const int64_t *shape)
{
    double update = 0, apply = 0, n = 1;
    for (int k = 0; k < ndim; k++) n *= (double)shape[k];
    if (psgd_group_cost(self->context, group, ndim, shape, self->dtype, NULL, NULL, &update, NULL, &apply, NULL) !=
        PSGD_OK) {
        return 0;
    }
    return update + apply > CHEAP * n ? update + apply : 0;
}

psgd_status psgd__ranks_create(psgd_optimizer *self, psgd_comm *comm, int count)
{
    int size = psgd_comm_size(comm);
    if (size == 1) return PSGD_OK;
    optim_ranks *ranks = self->ranks = psgd__alloc(self->context, 1, sizeof *ranks);
    if (ranks) {
        ranks->comm = comm;
        ranks->owned = psgd__alloc(self->context, 2 * (int64_t)size, sizeof *ranks->owned);
        ranks->list = psgd__alloc(self->context, 2 * (int64_t)count, sizeof *ranks->list);
        ranks->each = psgd__alloc(self->context, count, sizeof *ranks->each);
    }
    if (!ranks || !ranks->owned || !ranks->list || !ranks->each) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for an optimizer over %d ranks", size);
    }
    ranks->counts = ranks->owned + size;
    ranks->hs = ranks->list + count;
    return PSGD_OK;
}

void psgd__ranks_assign(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return;
    int *owners = (int *)(void *)ranks->list; /* free until a step */
    psgd_comm_owners(psgd_comm_size(ranks->comm), self->part_count, ranks->each, owners);
    for (int i = 0; i < self->part_count; i++) self->parts[i].owner = owners[i];
}

/* Places of all tensors: those of rank 0, of rank 1, .., then those of all ranks. */
static void place(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    int size = psgd_comm_size(ranks->comm);
    int64_t at = 0;
    for (int r = 0; r <= size; r++) {
        int64_t from = at;
        for (int i = 0; i < self->part_count; i++) {
            part *p = &self->parts[i];
            if (p->owner != (r < size ? r : -1)) continue;
            p->place = at;
            at += p->n;
        }
        *(r < size ? &ranks->owned[r] : &ranks->shared) = at - from;
    }
}

psgd_status psgd__ranks_build(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return PSGD_OK;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype), bytes, pairs = psgd_optimizer_pairs(self);
    if (self->undecided && self->with_products.fit.pairs > pairs) pairs = self->with_products.fit.pairs;
    bool products = optim_uses_products(self) || self->undecided;
    bool fits = psgd__mul_fits(self->total, element, &bytes) && psgd__mul_fits(bytes, pairs, &pairs);
    ranks->gradient = fits ? psgd__alloc(self->context, bytes, 1) : NULL;
    ranks->h = fits ? psgd__alloc(self->context, products ? pairs : 0, 1) : NULL;
    if (!ranks->gradient || !ranks->h) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the sums of %lld parameters over %d ranks",
                          (long long)self->total, psgd_comm_size(ranks->comm));
    }
    place(self);
    return PSGD_OK;
}

void psgd__ranks_free(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return;
    psgd__free(self->context, ranks->owned);
    psgd__free(self->context, (void *)ranks->list);
    psgd__free(self->context, ranks->each);
    psgd__free(self->context, ranks->gradient);
    psgd__free(self->context, ranks->h);
    psgd__free(self->context, ranks);
}

/* A slab of copies of each tensor; what lies before the tensors of all ranks is summed to its owners. */
static psgd_status sum_slab(psgd_optimizer *self, int64_t copies, const void *const *from, void *slab, const void **to)
{
    optim_ranks *ranks = self->ranks;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype), owned = 0;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        char *at = (char *)slab + copies * p->place * element;
        size_t bytes = (size_t)(copies * p->n * element);
        if (from[i]) {
            memcpy(at, from[i], bytes);
        } else {
            memset(at, 0, bytes);
        }
        to[i] = from[i] ? at : NULL;
    }
    for (int r = 0; r < psgd_comm_size(ranks->comm); r++) {
        ranks->counts[r] = copies * ranks->owned[r];
        owned += ranks->counts[r];
    }
    PSGD_TRY(psgd_comm_sum_to(ranks->comm, self->dtype, ranks->counts, slab));
    return psgd_comm_sum(ranks->comm, self->dtype, copies * ranks->shared, (char *)slab + owned * element);
}

psgd_status psgd__ranks_sum(psgd_optimizer *self, const void *const **gradient, const void *const **h)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return PSGD_OK;
    PSGD_TRY(sum_slab(self, 1, *gradient, ranks->gradient, ranks->list));
    *gradient = ranks->list;
    if (!*h || !psgd_optimizer_wants_product(self)) return PSGD_OK;
    PSGD_TRY(sum_slab(self, psgd_optimizer_pairs(self), *h, ranks->h, ranks->hs));
    *h = ranks->hs;
    return PSGD_OK;
}

/* A sum with zeros is exact. */
psgd_status psgd__ranks_collect(const psgd_optimizer *self, double *each)
{
    if (!self->ranks) return PSGD_OK;
    int rank = psgd_comm_rank(self->ranks->comm);
    for (int i = 0; i < self->part_count; i++) {
        int owner = self->parts[i].owner;
        if (rank != (owner < 0 ? 0 : owner)) each[i] = 0;
    }
    return psgd_comm_sum(self->ranks->comm, PSGD_F64, self->part_count, each);
}

/* The slab of gradients is free by now. */
psgd_status psgd__ranks_share(psgd_optimizer *self)
{
    optim_ranks *ranks = self->ranks;
    if (!ranks) return PSGD_OK;
    int64_t element = (int64_t)psgd_dtype_size(self->dtype);
    int rank = psgd_comm_rank(ranks->comm);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < self->part_count; i++) {
            const part *p = &self->parts[i];
            char *here = (char *)self->direction + p->from * element;
            char *slab = (char *)ranks->gradient + p->place * element;
            if (p->owner < 0 || (pass == 0) != (p->owner == rank)) continue;
            memcpy(pass ? here : slab, pass ? slab : here, (size_t)(p->n * element));
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
