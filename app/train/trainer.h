/* The inside of a run, for the files that make it. */
#ifndef PSGD_TRAIN_TRAINER_H
#define PSGD_TRAIN_TRAINER_H

#include "train/curvature_ranks.h"
#include "train/delayed.h"
#include "train/micro_batches.h"
#include "train/task.h"

enum { TRAIN_MAX_TENSORS = 64 };

/* What changes from step to step besides arrays: the head of a checkpoint has it. */
typedef struct train_progress {
    int64_t step;
    double seconds;               /* of training over all sessions, without evaluations */
    double best;                  /* the best validation loss of a whole epoch so far */
    double valid;                 /* the validation loss at this step; NaN where it was not measured */
    double cpu;                   /* the same of the processor, all threads together */
    double first;                 /* the loss of the first step; NaN before it */
    double record_sum, epoch_sum; /* losses since the last record and since the epoch began */
    int64_t record_count, epoch_count;
} train_progress;

struct trainer {
    const psgd_context *context;
    train_config config;
    task *task;
    psgd_optimizer *optimizer;
    micro_batches *micro;      /* NULL: the batch is one */
    delayed_products *delayed; /* NULL: Hessian-vector products are evaluated in their step */
    int tensors;
    bool by_closure;           /* the optimizer asks for gradients itself */
    bool serves;               /* this is a curvature rank */
    bool overlaps, agreed;     /* on this step: gradients are summed while others are computed; no rank has failed */
    int64_t parameters, pairs; /* elements; pairs (v, Hv) of a step */
    char *slabs;               /* one block for the next five; best: NULL where the task keeps none */
    char *theta, *gradient, *v, *h, *best;
    void **theta_list, **gradient_list, **v_list, **h_list; /* [tensors] each */
    train_progress now;
    int64_t total;         /* steps */
    bool resumed, changed; /* changed: with other settings */
    bool data_given;       /* with the command that resumes */
    int created, lock;     /* folders that were made for the run; psgd__folder_lock of the last, or -1 */
};

/* Binds the objective of methods that ask for gradients themselves. */
psgd_status psgd__train_bind(trainer *self);

/* One step: batch, derivatives, optimizer, carried state. */
psgd_status psgd__train_step(trainer *self, double *loss);

/* PSGD_ERR_NOT_FINITE with a sentence where the run has diverged: by the loss of a step that was taken, where that is
 * asked for by its weights too. */
psgd_status psgd__train_check(trainer *self, double loss, bool weights);

/* Creates or resumes the log; its header has the settings of the run. */
psgd_status psgd__train_log(trainer *self, metrics_log **log);

/* Removes what psgd__train_log has made for a run that could not begin. */
void psgd__train_forget(const trainer *self);

/* Whether best weights are there and better than those of this step. */
bool psgd__train_best_wins(const train_progress *now);

/* What to test and publish: the best weights, or those of this step. */
char *psgd__train_weights(const trainer *self);

#endif
