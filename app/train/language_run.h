/* A run of the language model while it is open: what opening makes and training changes. */
#ifndef PSGD_TRAIN_LANGUAGE_RUN_H
#define PSGD_TRAIN_LANGUAGE_RUN_H

#include "core/text.h"
#include "train/language.h"

enum { LANGUAGE_PARAMETERS = 16 };

typedef struct language_run {
    const psgd_context *context;
    const corpus *text;
    const language_settings *settings;
    language_shape shape; /* of the settings, and how the gradient of the embedding comes */
    const char *folder;
    psgd_graph *graph;
    language_nodes nodes;
    psgd_optimizer *optimizer;
    metrics_log *log;
    language_memory memory; /* state is the graph's own */
    float *slabs;           /* theta, best, gradient, v, hv */
    void *theta[LANGUAGE_PARAMETERS], *gradient[LANGUAGE_PARAMETERS], *v[LANGUAGE_PARAMETERS], *hv[LANGUAGE_PARAMETERS];
    int64_t epoch_steps, total;
    double valid; /* of the last evaluation; NaN before */
} language_run;

/* Checks text, sizes and memory, makes what a run needs, and starts its folder or reads what that has. */
psgd_status psgd__language_open(language_run *self, const language_method *method, const metrics_setting *more,
                                int more_count);

/* Where the optimizer of this step is kept; the caller frees path. */
psgd_status psgd__language_state_path(const language_run *self, int64_t step, text *path);

#endif
