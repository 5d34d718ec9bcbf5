/* What a model is trained on, behind one interface for the trainer: batches, scores, and what to record of them.
 * task_samples.c is labelled samples, task_language.c a text. The trainer does everything else: graphs of the batch,
 * gradients and Hv, row-sparse gradients, steps, schedules, best weights, records, checkpoints.
 *
 * To add one: a struct with `task base` first, and one `const task_ops` at the end. */
#ifndef PSGD_TRAIN_TASK_H
#define PSGD_TRAIN_TASK_H

#include "train/config.h"

enum { TASK_MAX_METRICS = 8, TASK_MAX_FACTS = 3 };

/* A model on batches of one size. */
typedef struct train_graph {
    psgd_graph *graph;
    model_nodes nodes;
    int64_t n;
} train_graph;

typedef struct task task;

/* A micro-batch: samples of a batch that a graph takes at once. */
typedef struct task_piece {
    int64_t index, from, n, hv;     /* the first of its samples in the batch, how many, and of these for Hv */
    const train_graph *full, *part; /* graphs of that size */
    double weight, hv_weight;       /* its share of the batch */
} task_piece;

typedef struct task_ops {
    bool keeps_best;  /* the weights with the best validation loss are those that are tested */
    int health_every; /* records of the training loss between those of the preconditioners; 0: none of these */

    /* REQUIRED */
    /* Reads and checks the data; sets shape, steps_per_epoch, validation and carries. */
    psgd_status (*open)(const train_config *config, task **opened);
    /* Allocates what depends on the graphs, which are there now. */
    psgd_status (*prepare)(task *self);
    void (*close)(task *self); /* frees all but the graphs; also what is half open */
    psgd_status (*load)(task *self, int64_t step, const task_piece *piece); /* into the graphs of the piece */
    /* All ranks. The validation or the test split with these weights; the carried state stays. */
    psgd_status (*score)(task *self, bool test, const void *theta, train_score *score);
    /* The values of a record, and how many: of a split while training, and of the end. */
    int (*point)(const task *self, bool training, const train_score *score, double rate, metric *values);
    int (*final)(const task *self, const train_score *valid, const train_score *test, int64_t skipped, metric *values);
    void (*describe)(const task *self, text *to); /* what is known of the data, on one line */
    double (*memory)(const task *self);           /* bytes beyond the graphs of the batch, about */

    /* OPTIONAL */
    train_reading (*reading)(const task *self);
} task_ops;

struct task {
    const task_ops *ops;
    const train_config *config;
    model_shape shape; /* of a batch, but for n */
    /* The trainer's: a micro-batch; the samples of it that Hv is taken on, where these are fewer; the same for those
     * that have one sample less. Without micro-batches full is the batch. */
    train_graph full, part, less, part_less;
    int64_t steps_per_epoch;
    const char
        *validation; /* the split that schedules and best weights follow: "valid", or "test" where there are two */
    bool carries;    /* the graph's state passes from step to step: of recurrent layers, or moving averages */
    /* What the log records besides the settings. */
    metrics_setting facts[TASK_MAX_FACTS];
    char fact[TASK_MAX_FACTS][32], note[200];
    int fact_count;
    /* Bytes that a checkpoint keeps and a resumed run must have again, and their name; NULL: none. Unless it binds,
     * they may differ where --data is given with the command that resumes. */
    const char *identity, *identity_bytes;
    int64_t identity_size;
    bool identity_binds;
    /* Called with the progress of a score; may be NULL. */
    void (*scored)(void *data, int64_t done, int64_t total);
    void *scored_data;
};

extern const task_ops psgd__task_samples, psgd__task_language;

/* Micro-batch index of a batch. Sizes differ by one at most, the first ones are larger. */
task_piece psgd__task_piece(const task *self, int64_t index);
/* Those of this rank: from first, count of them. */
void psgd__task_own(const train_config *config, int64_t *first, int64_t *count);

/* A graph of the model for n samples of the task; none where n is 0. */
psgd_status psgd__task_graph(const task *self, int64_t n, bool penalised, bool row_gradients, train_graph *to);

/* Whether --data names JPEGs, and whether an option says how they are read. */
bool psgd__task_takes_jpegs(const char *data);
bool psgd__task_is_of_jpegs(const char *option);

/* An option that is set and says how JPEGs are read; NULL: none is. */
const char *psgd__task_jpeg_option(const train_settings *settings);

/* The state of a graph for another: of its first samples, or moving averages, which know no samples. */
void psgd__task_share_state(const task *self, const train_graph *from, const train_graph *to);

/* Of so many batches of a split those that are scored: option eval-batches. */
int64_t psgd__task_eval_batches(const task *self, int64_t batches);
void psgd__task_scored(const task *self, int64_t done, int64_t total);

void psgd__task_fact(task *self, const char *name, const char *format, ...) PSGD_PRINTF(3, 4);

#endif
