/* The paper's third experiment: the LSTM language model under one method, resumable at any moment.
 *
 * A run is a folder: metrics.jsonl, vocabulary.txt, checkpoint, and optimizer-STEP.state, the optimizer at the step of
 * the checkpoint. The checkpoint is the last to be written and takes its place by rename, so whatever is killed when,
 * a run goes on from the last whole checkpoint and ends with the same numbers. */
#ifndef PSGD_TRAIN_LANGUAGE_H
#define PSGD_TRAIN_LANGUAGE_H

#include "data/text/corpus.h"
#include "model/language.h"
#include "report/metrics.h"
#include <psgd/optim.h>

typedef struct language_settings {
    language_shape shape;  /* words comes from the text */
    int64_t epochs, steps; /* the run ends with whichever comes first; steps 0: no limit */
    int64_t checkpoint_every, log_every;
    double range; /* of the uniform start */
    uint64_t seed;
    const char *task; /* in the log */
    bool whole;       /* gradients of an untied embedding are whole matrices, with zeros */
} language_settings;

enum { LANGUAGE_OPTIONS = 10, LANGUAGE_MORE = 32 };

/* A method with the settings of the paper. */
typedef struct language_method {
    const char *name, *method;
    bool by_rows;                              /* takes row-sparse gradients of an untied embedding */
    metrics_setting options[LANGUAGE_OPTIONS]; /* ends with a NULL name */
} language_method;

const language_method *psgd__language_method(int index); /* NULL past the last */

typedef struct language_result {
    int64_t steps, skipped;
    double epochs, seconds;       /* of training, without evaluations */
    double valid_loss, test_loss; /* nats a word: at the end; of the best model */
} language_result;

/* Memory that a run of this shape needs, about. */
double psgd__language_run_bytes(const language_shape *shape);

/* Called after each step, with the steps made and those to make. */
typedef void (*language_watch)(void *data, int64_t done, int64_t total);

/* Starts the run in folder, or goes on with it. more, at most LANGUAGE_MORE, replace options of the method. */
psgd_status psgd__language_run(const psgd_context *context, const corpus *source, const language_settings *settings,
                               const language_method *method, const metrics_setting *more, int more_count,
                               const char *folder, language_watch watch, void *watch_data, language_result *result);

/* What the file of a checkpoint begins with. */
typedef struct language_mark {
    char magic[8], what[384]; /* what: method and settings, as one line */
    int64_t words, hidden, layers, untied, parameters, state_size;
    uint64_t vocabulary;
    int64_t step;
    double seconds, best, recent_sum;
    int64_t recent_count;
} language_mark;

typedef struct language_memory {
    language_mark mark;
    float *theta, *best, *state; /* parameters, parameters, state_numbers */
} language_memory;

psgd_status psgd__language_save(const psgd_context *context, const language_memory *from, const char *folder);

/* Only the mark: what was saved. PSGD_ERR_IO where there is no checkpoint. */
psgd_status psgd__language_load_mark(const char *folder, language_mark *mark);
psgd_status psgd__language_load(const psgd_context *context, language_memory *to, const char *folder);

/* Samples count words from the best model of a run, after EOS_WORD, and hands each to say. */
psgd_status psgd__language_generate(const psgd_context *context, const char *folder, int64_t count, double temperature,
                                    uint64_t seed, void (*say)(void *data, const char *word), void *data);

#endif
