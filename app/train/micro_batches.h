/* A batch as micro-batches, over ranks: each rank runs its own one after the other, and their gradients are added in
 * one binary tree over the index of the micro-batch (psgd/comm.h), so that the sum has the same bits on any number of
 * ranks.
 *
 * The state that a graph carries (of recurrent layers) is that of its samples, so each micro-batch has its own; moving
 * averages of batch normalisation, whose statistics are those of a micro-batch, are averaged over all of them. */
#ifndef PSGD_TRAIN_MICRO_BATCHES_H
#define PSGD_TRAIN_MICRO_BATCHES_H

#include "train/task.h"

typedef struct trainer trainer;
typedef struct micro_batches micro_batches;

/* Where there are more than one of them; else *created is NULL. */
psgd_status psgd__micro_create(const trainer *self, micro_batches **created);
void psgd__micro_free(const trainer *self, micro_batches *micro);
double psgd__micro_memory(const trainer *self); /* bytes */

/* One micro-batch: into the trainer's gradient and, where h_size is not 0, h; and the loss. */
typedef psgd_status (*micro_run)(trainer *self, const task_piece *piece, const void *theta, const void *v,
                                 double *loss);

/* Gradient, h (h_size elements) and loss of this rank's share of the batch. Without micro-batches: of the batch, which
 * is in the graphs already. */
psgd_status psgd__micro_evaluate(trainer *self, micro_run run, const void *theta, const void *v, int64_t h_size,
                                 double *loss);

/* All ranks. The state of the last evaluation is carried over. */
psgd_status psgd__micro_carry(trainer *self);

/* All ranks. The carried state of the whole batch, as a checkpoint has it, and back. */
psgd_status psgd__micro_state(const trainer *self, void **state, int64_t *bytes);
void psgd__micro_set_state(trainer *self, const void *state);

/* The carried state as data ranks send it to curvature ranks: this rank's part of it, bytes long, and the parts of all
 * data ranks, from byte at of each, back. What all ranks have is rank 0's. */
int64_t psgd__micro_own_bytes(const trainer *self);
void psgd__micro_own_state(const trainer *self, char *to);
void psgd__micro_join_states(trainer *self, const void *const *parts, int64_t at);

#endif
