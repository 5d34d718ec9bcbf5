/* Training a model on a source with an optimizer: what psgd train, resume and eval do.
 *
 * A run is a list of settings by name, a folder with its metrics log, its checkpoint and, at the end, its weights. The
 * settings are in the checkpoint, so that a resumed run needs nothing else and goes on to the same bits. */
#ifndef PSGD_TRAIN_TRAIN_H
#define PSGD_TRAIN_TRAIN_H

#include <signal.h>

#include "core/options.h"
#include "core/text.h"
#include "data/source.h"
#include "model/model.h"
#include <psgd/psgd.h>

#define CHECKPOINT_FILE "checkpoint.psgd"
#define WEIGHTS_FILE    "weights.safetensors"

enum { TRAIN_MAX_SETTINGS = 96 };

typedef struct train_setting {
    const char *name, *value;
} train_setting;

typedef enum hv_choice { HV_EXACT, HV_DIFFERENCE } hv_choice;

/* The options of training itself; those of the model and of the optimizer come beside them. */
typedef struct train_settings {
    const char *model, *data, *optimizer, *out;
    int64_t batch, epochs, steps, seed, hv_batch, log_every, checkpoint_every;
    int hv, dtype;
    double lr_end;
    int64_t samples, height, width;
    double holdout;
    int64_t lr_epochs, resize, decode_threads;
    const char *cache, *truth, *name, *task;
    bool subtract_mean, random_crop, mirror;
} train_settings;

extern const option_row psgd__train_options[];
extern const int psgd__train_option_count;

typedef struct trainer trainer;

/* What happens while training; each may be NULL. */
typedef struct train_watch {
    void (*step)(void *data, int64_t done, int64_t total, double loss);
    void (*epoch)(void *data, int64_t epoch, double train_loss, double test_loss, double error, double seconds);
    void *data;
    const volatile sig_atomic_t *stop; /* not 0: finish the step, save, and return */
} train_watch;

/* Everything is opened and checked, nothing written. */
psgd_status psgd__trainer_create(const psgd_context *context, int count, const train_setting *settings,
                                 trainer **created);
/* From the checkpoint of a run's folder. Settings given here win over those in it (epochs and steps, for more of them).
 */
psgd_status psgd__trainer_resume(const psgd_context *context, const char *folder, int count,
                                 const train_setting *settings, trainer **created);
void psgd__trainer_free(trainer *self);

/* Trains to the end, or until the watch says stop: *stopped. */
psgd_status psgd__trainer_run(trainer *self, const train_watch *watch, bool *stopped);

/* On the test split: mean loss without the penalty, and shares of samples whose class is not the first or not among the
 * first five (NaN where y is a number, or there are not more than five classes). */
typedef struct train_score {
    double loss, error, top5_error;
} train_score;
psgd_status psgd__trainer_evaluate(trainer *self, train_score *score);

/* What came of reading the samples: seconds that steps have waited for them in this sitting, files passed over because
 * they could not be read, and the sentence about the first of those, "" where there is none. */
typedef struct train_reading {
    double waited;
    int64_t passed_over;
    const char *first_bad;
} train_reading;
train_reading psgd__trainer_reading(const trainer *self);

/* Bytes that a run needs, about. */
double psgd__trainer_need(const trainer *self);

/* Shapes, groups, bytes and flops of a step, a line each. */
psgd_status psgd__trainer_describe(trainer *self, text *to);

psgd_status psgd__trainer_save_weights(const trainer *self, const char *path);
psgd_status psgd__trainer_load_weights(trainer *self, const char *path);
int64_t psgd__trainer_step(const trainer *self);
const char *psgd__trainer_folder(const trainer *self);

#endif
