/* Hessian-vector products of the optimizer's workers (option delay): each worker has a graph of its own, and each pair
 * in flight a copy of its batch and of the carried state. With micro-batches or ranks, and for finite differences, the
 * products are the trainer's own, and workers only fit; curvature_ranks.h has ranks that do both. */
#ifndef PSGD_TRAIN_DELAYED_H
#define PSGD_TRAIN_DELAYED_H

#include "train/task.h"

typedef struct trainer trainer;
typedef struct delayed_products delayed_products;

/* After the graphs and the optimizer; *created stays NULL where products are the trainer's own. */
psgd_status psgd__delayed_create(trainer *self, delayed_products **created);
void psgd__delayed_free(const trainer *self, delayed_products *products); /* after the optimizer */
double psgd__delayed_memory(const trainer *self);                         /* bytes */

#endif
