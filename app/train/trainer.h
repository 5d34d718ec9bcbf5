/* The inside of a run, for the files that make it. */
#ifndef PSGD_TRAIN_TRAINER_H
#define PSGD_TRAIN_TRAINER_H

#include "report/metrics.h"
#include "train/train.h"

/* A model on batches of one size. */
typedef struct train_graph {
    psgd_graph *graph;
    model_nodes nodes;
    int64_t n;
} train_graph;

/* Losses since the last record and since the epoch began: in the checkpoint, so that records do not notice it. */
typedef struct train_sums {
    double record, epoch;
    int64_t recorded, in_epoch;
} train_sums;

struct trainer {
    const psgd_context *context;
    char *text; /* "name=value\n" of every setting, as a checkpoint has them */
    train_settings settings;
    model_settings model_options;
    const model *kind;
    psgd_options *own_options, *model_list, *optimizer_options;
    psgd_dtype dtype;
    source *train, *test;
    train_graph full, part, eval, rest; /* part: for Hv on some of the batch; rest: what is left of the test split */
    psgd_optimizer *optimizer;
    int tensors;
    bool by_closure;           /* the optimizer asks for gradients itself */
    int64_t parameters, pairs; /* numbers */
    char *slabs;               /* one block for the next four */
    char *theta, *gradient, *v, *h;
    void **theta_list, **gradient_list, **v_list, **h_list; /* [tensors] each */
    float *x, *y;                                           /* a batch as it comes from the source */
    int64_t *order;
    int64_t ordered; /* the epoch whose order that is, or -1 */
    int64_t step, steps_per_epoch, total;
    bool resumed;
    bool averages;  /* the graph keeps moving averages, for when it does not train */
    double seconds; /* of earlier sittings */
    train_sums sums;
};

/* Loads samples index[0 .. n-1] into a graph. */
psgd_status psgd__train_load(trainer *self, source *from, const train_graph *to, const int64_t *index);

/* A watcher of the graph for kfac. */
void psgd__train_observe(void *data, int parameter, int64_t count, const void *inputs, const void *gradients);

/* The checkpoint: settings, step, parameters and all of the optimizer's state. */
psgd_status psgd__checkpoint_write(const trainer *self, double seconds);
psgd_status psgd__checkpoint_settings(const psgd_context *context, const char *folder, char **text);
psgd_status psgd__checkpoint_read(trainer *self, const char *folder);

#endif
