/* Training a model with an optimizer: what psgd train, resume, eval, generate and paper do.
 *
 * A run is a list of settings by name and a folder with its metrics log, its checkpoint and, at the end, its weights.
 * The settings are in the checkpoint, so that a run resumes from its folder alone, bit-for-bit. */
#ifndef PSGD_TRAIN_TRAIN_H
#define PSGD_TRAIN_TRAIN_H

#include <signal.h>

#include "core/options.h"
#include "core/text.h"
#include "model/model.h"
#include "report/metrics.h"
#include <psgd/psgd.h>

#define CHECKPOINT_FILE "checkpoint.psgd"
#define WEIGHTS_FILE    "weights.safetensors"

enum { TRAIN_MAX_SETTINGS = 96 };

typedef metrics_setting train_setting;

typedef enum hv_choice { HV_EXACT, HV_DIFFERENCE } hv_choice;

/* The options of training itself; the model and the optimizer have their own. */
typedef struct train_settings {
    const char *model, *data, *optimizer, *out;
    int64_t batch, epochs, steps, seed, hv_batch, log_every, checkpoint_every, micro_batches, eval_batches;
    int hv, dtype;
    double lr_end;
    int64_t samples, height, width;
    double holdout, validation;
    int64_t lr_epochs, resize, decode_threads;
    const char *cache, *truth, *name, *task;
    bool regression, subtract_mean, random_crop, mirror;
} train_settings;

extern const option_row psgd__train_options[];
extern const int psgd__train_option_count;

typedef struct trainer trainer;

/* Losses of a split: the mean without the penalty, and what the task adds; NaN where it has no such figure. error and
 * top5_error are the shares of samples whose class is not the first, or not among the first five. */
typedef struct train_score {
    double loss, error, top5_error, perplexity;
} train_score;

/* What happens while training; each may be NULL. */
typedef struct train_watch {
    void (*step)(void *data, int64_t done, int64_t total, double loss);
    void (*epoch)(void *data, int64_t epoch, double train_loss, const char *split, const train_score *score,
                  double seconds);
    void *data;
    void (*warn)(void *data, const char *sentence); /* the first step that was skipped */
    const volatile sig_atomic_t *stop;              /* not 0: finish the step, save, and return */
} train_watch;

/* The ranks of a run. comm is of those that share a batch. With curvature ranks (psgd_optimizer_bind_curvature) these
 * have a comm of their own, and all is of all ranks, the last of which they are. */
typedef struct train_ranks {
    psgd_comm *comm, *all;
    int curvature_ranks;
} train_ranks;

/* Everything is opened and checked, nothing written. ranks is NULL for a single rank; else all ranks make all calls of
 * a trainer, rank 0 writes, and where one fails all do. */
psgd_status psgd__trainer_create(const psgd_context *context, const train_ranks *ranks, int count,
                                 const train_setting *settings, trainer **created);
/* From the checkpoint in a run's folder. Settings given here win over those in it: epochs and steps, say. */
psgd_status psgd__trainer_resume(const psgd_context *context, const train_ranks *ranks, const char *folder, int count,
                                 const train_setting *settings, trainer **created);
void psgd__trainer_free(trainer *self);

/* Trains to the end, or until the watch says stop: *stopped. PSGD_ERR_NOT_FINITE where the run has diverged, or too
 * many steps in a row were skipped: the log then ends with a final record that has diverged = 1. */
psgd_status psgd__trainer_run(trainer *self, const train_watch *watch, bool *stopped);

/* On the test split. Where the task keeps the weights of the best validation loss these are tested; valid is the
 * validation split with the weights of the last step then, else NaN. */
psgd_status psgd__trainer_evaluate(trainer *self, train_score *valid, train_score *test);

/* Calls scored(data, done, total) while a split is scored, batch by batch. */
void psgd__trainer_watch_scores(trainer *self, void (*scored)(void *data, int64_t done, int64_t total), void *data);

/* How reading the samples went: seconds that steps have waited for them in this session, files passed over because
 * they could not be read, and the sentence about the first of those, "" where there is none. */
typedef struct train_reading {
    double waited;
    int64_t passed_over;
    const char *first_bad;
} train_reading;
train_reading psgd__trainer_reading(const trainer *self);

/* Over ranks: seconds of this session in which sums went on behind the backward pass, and those that steps have waited
 * for; both 0 where there are none. */
void psgd__trainer_messages(const trainer *self, double *seconds, double *waited);

/* An estimate of the bytes that a run needs. */
double psgd__trainer_memory(const trainer *self);

/* Shapes, groups, bytes and flops of a step, a line each. */
psgd_status psgd__trainer_describe(trainer *self, text *to);

psgd_status psgd__trainer_save_weights(const trainer *self, const char *path);
psgd_status psgd__trainer_load_weights(trainer *self, const char *path);

typedef struct train_state {
    int64_t step, total; /* made, and when all are made */
    const char *limit;   /* which options more steps need, in words */
    const char *folder;  /* NULL where nothing is written */
    const char *note;    /* a sentence about the data worth telling, or "" */
    int ranks;           /* that share a batch */
} train_state;
train_state psgd__trainer_state(const trainer *self);

/* Samples count words after the end of a line from the language model of a run, with its best weights, and hands each
 * to say; joined: words are characters, and no space is between them. */
psgd_status psgd__generate(const psgd_context *context, const char *folder, int64_t count, double temperature,
                           uint64_t seed, void (*say)(void *data, const char *word, bool joined), void *data);

#endif
