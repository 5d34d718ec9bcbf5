/* The paper's experiments with a model, as presets for the trainer: one run for each method (sections 7.2 and 7.3). */
#ifndef PSGD_PAPER_PRESETS_H
#define PSGD_PAPER_PRESETS_H

#include "train/train.h"

enum { PAPER_COLUMNS = 4, PAPER_FLAGS = 24 };

/* A method with the settings of the paper, "name=value;name=value". */
typedef struct paper_method {
    const char *name, *preset;
} paper_method;

/* A column of the table of results: add + factor times a number of the final record. */
typedef struct paper_column {
    const char *title, *metric;
    int width, decimals;
    double add, factor;
} paper_column;

typedef struct paper_experiment {
    const char *name, *source;       /* of the source of --data */
    const paper_method *methods;     /* ends with a NULL name */
    const char *standard;            /* the methods that run unless others are named */
    const char *common, *variant[2]; /* presets; imagenet: full, small; wikitext2: a text, a synthetic one */
    const char *flags[PAPER_FLAGS];  /* those of the command that are settings; end with NULL */
    const char *may_change[4];       /* settings that a resumed run may have another value of, besides the usual ones */
    paper_column columns[PAPER_COLUMNS + 1]; /* of the table, after steps, epochs, seconds and ms/step */
    bool report;                             /* the runs end with a page */
} paper_experiment;

/* NULL where there is none of this name. */
const paper_experiment *psgd__paper_find(const char *name);

/* What the user gave: settings by the names of psgd train. */
typedef struct paper_choice {
    int variant;
    train_setting given[PAPER_FLAGS], fit[PAPER_FLAGS]; /* fit: only for methods that fit a preconditioner */
    int given_count, fit_count;
} paper_choice;

/* The run of a method in a folder: a new one, or the one that is there, which must have been made with the same
 * settings but for how long it runs, what it logs and how data is read. */
psgd_status psgd__paper_open(const psgd_context *context, psgd_comm *comm, const paper_experiment *experiment,
                             const paper_choice *choice, const paper_method *method, const char *folder,
                             trainer **opened);

#endif
