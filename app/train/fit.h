/* Fitting a preconditioner to pairs from files: what psgd fit does. */
#ifndef PSGD_TRAIN_FIT_H
#define PSGD_TRAIN_FIT_H

#include <stdint.h>

#include "core/text.h"
#include <psgd/psgd.h>

enum { FIT_WIDEST = 8192 }; /* the widest factor that is written as a matrix */

typedef struct fit_job {
    const char *group;
    int ndim;
    const int64_t *shape;
    psgd_dtype dtype;
    const psgd_options *options;                               /* of the preconditioner */
    const char *v, *h, *apply;                                 /* .npy files; v and apply may be NULL */
    uint64_t seed;                                             /* v is drawn from it where there is no file */
    const char *out;                                           /* folder, created */
    const char *report;                                        /* JSON lines; may be NULL */
    void (*progress)(void *data, int64_t done, int64_t total); /* may be NULL */
    void *progress_data;
} fit_job;

/* Makes the updates in order and writes PG.npy, Q1.npy, ... and the report. summary says what was done, a line each.
 * After a failure there are no new files and no new folder. */
psgd_status psgd__fit_run(const psgd_context *context, const fit_job *job, text *summary);

#endif
