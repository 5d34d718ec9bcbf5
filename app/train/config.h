/* From a list of settings by name to those of training, of the model and of the optimizer. */
#ifndef PSGD_TRAIN_CONFIG_H
#define PSGD_TRAIN_CONFIG_H

#include "train/train.h"

typedef struct train_config {
    const psgd_context *context;
    psgd_comm *comm; /* of the ranks that share a batch; NULL: a single rank */
    psgd_comm *all;  /* with curvature ranks: of all ranks, these last; else NULL */
    int curvature_ranks;
    char *text; /* "name=value\n" of every setting given, as a checkpoint has them */
    train_settings settings;
    model_settings model;
    const model *kind;
    psgd_dtype dtype;
    psgd_options *own_list, *model_list, *optimizer;
} train_config;

/* On failure too the caller frees what is there. */
psgd_status psgd__config_read(const psgd_context *context, int count, const train_setting *list, train_config *config);
void psgd__config_free(train_config *config);

/* The method of psgd_optimizer_create that the setting optimizer names. A graph has exact products, so psgd is
 * psgd-newton unless a criterion is asked for. */
const char *psgd__config_method(const train_config *config);

/* Cuts a text of "name=value\n" lines into settings, in place; returns how many. */
int psgd__config_split(char *lines, train_setting list[TRAIN_MAX_SETTINGS]);

#endif
