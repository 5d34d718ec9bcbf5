/* Curvature ranks of a run (--curvature-ranks): they evaluate Hessian-vector products and fit, while the data ranks
 * step. A request names the step, so that they read its batch themselves, and has the state that the graph carried
 * into it. */
#ifndef PSGD_TRAIN_CURVATURE_RANKS_H
#define PSGD_TRAIN_CURVATURE_RANKS_H

#include "train/task.h"

typedef struct trainer trainer;

/* All ranks of the run; nothing where there are no curvature ranks. bind: after graphs, optimizer and memory. serve: on
 * a curvature rank, until the data ranks are at their end. end: on a data rank, whatever its status is, which all ranks
 * then have. */
psgd_status psgd__train_bind_curvature(trainer *self);
psgd_status psgd__train_serve_curvature(trainer *self);
psgd_status psgd__train_end_curvature(trainer *self, psgd_status status);
double psgd__train_curvature_memory(const trainer *self); /* bytes of requests and replies, about */

/* All ranks of the run, with and without curvature ranks. */
psgd_status psgd__train_agree(const trainer *self, psgd_status status);

#endif
