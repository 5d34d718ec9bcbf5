/* An optimizer over ranks: who owns which tensor, sums of gradients to their owners, directions back to all.
 *
 * P stands between the two halves of an all-reduce: a gradient is summed to the owner of its preconditioner, who makes
 * the direction, and the directions are shared. So preconditioners that are spread over ranks cost no traffic beyond
 * that of plain data parallelism. Everything that is joint over all tensors (clipping, the test for non-finite values)
 * is then computed by every rank, from the same numbers. */
#ifndef PSGD_OPTIM_RANKS_H
#define PSGD_OPTIM_RANKS_H

#include <stdint.h>

#include <psgd/comm.h>
#include <psgd/optim.h>

typedef struct optim_ranks {
    psgd_comm *comm;
    int64_t *owned;          /* [ranks] elements of the tensors that a rank owns */
    int64_t *counts;         /* [ranks] */
    int64_t shared;          /* elements of the tensors that all ranks advance: the end of a slab */
    void *gradient, *h;      /* slabs of sums, and of directions; h only where products are taken */
    const void **list, **hs; /* [tensors] into them */
    double *each;            /* [tensors] */
} optim_ranks;

/* In this order while an optimizer is created. create: nothing for a single rank. assign: the owner of each tensor, by
 * the work in each[i], which is 0 where every rank may well do it. build: memory, when everything else is known. */
psgd_status psgd__ranks_create(psgd_optimizer *self, psgd_comm *comm, int count);
double psgd__ranks_work(const psgd_optimizer *self, const char *group, int ndim, const int64_t *shape);
void psgd__ranks_assign(psgd_optimizer *self);
psgd_status psgd__ranks_build(psgd_optimizer *self);
void psgd__ranks_free(psgd_optimizer *self);

/* All ranks. Gradients and, where h is not NULL, products of all ranks: the lists are replaced by those of the sums,
 * which tensors that are this rank's have. */
psgd_status psgd__ranks_sum(psgd_optimizer *self, const void *const **gradient, const void *const **h);

/* All ranks. each[i], which the owner of tensor i has set, to all. */
psgd_status psgd__ranks_collect(const psgd_optimizer *self, double *each);

/* All ranks. Directions from their owners to all. */
psgd_status psgd__ranks_share(psgd_optimizer *self);

/* All ranks. status of a caller's function, and what it has written: loss and arrays of all tensors <- their sums. */
psgd_status psgd__ranks_evaluated(psgd_optimizer *self, psgd_status status, double *loss, void *const *gradient,
                                  void *const *h);

#endif
