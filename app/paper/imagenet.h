/* The paper's second experiment (section 7.2): AlexNet on pictures in class folders, one run for each method. */
#ifndef PSGD_PAPER_IMAGENET_H
#define PSGD_PAPER_IMAGENET_H

#include "train/train.h"

enum { IMAGENET_OPTIONS = 8, IMAGENET_MORE = 24 };

/* A method with the settings of the paper. */
typedef struct imagenet_method {
    const char *name;
    train_setting options[IMAGENET_OPTIONS]; /* ends with a NULL name */
} imagenet_method;

const imagenet_method *psgd__imagenet_method(int index); /* NULL past the last */
bool psgd__imagenet_default(int index);                  /* whether it runs unless methods are named */

typedef struct imagenet_settings {
    const char *data; /* folder */
    bool small;
    int64_t epochs;
    /* Whatever else is not the paper's, by the names of psgd train; those of the fit go to psgd methods only. */
    train_setting more[IMAGENET_MORE], fit[IMAGENET_MORE];
    int more_count, fit_count;
} imagenet_settings;

/* The run of a method in a folder: a new one, or the one that is there, which must have been made with the same
 * settings but for epochs, steps and how pictures are decoded. */
psgd_status psgd__imagenet_open(const psgd_context *context, const imagenet_settings *settings,
                                const imagenet_method *method, const char *folder, trainer **opened);

#endif
