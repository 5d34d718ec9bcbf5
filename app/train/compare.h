/* One run of a comparison of optimizers: the settings that all share, those of the optimizer, a learning rate, a seed.
 */
#ifndef PSGD_TRAIN_COMPARE_H
#define PSGD_TRAIN_COMPARE_H

#include "train/train.h"

typedef struct compare_list {
    train_setting list[TRAIN_MAX_SETTINGS];
    int count;
} compare_list;

/* Replaces the value of this name. Too many settings are an error. Both strings are borrowed. */
psgd_status psgd__compare_set(compare_list *to, const char *name, const char *value);

/* The run in this folder: a new one, the one that was stopped there, or, with *opened NULL, one that has finished. A
 * run with other settings is refused. */
psgd_status psgd__compare_open(const psgd_context *context, const compare_list *settings, const char *folder,
                               trainer **opened);

#endif
