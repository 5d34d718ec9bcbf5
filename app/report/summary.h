/* A run in a few numbers, as tables of runs want it. */
#ifndef PSGD_REPORT_SUMMARY_H
#define PSGD_REPORT_SUMMARY_H

#include "report/metrics.h"

typedef struct metrics_summary {
    bool finished, diverged; /* a diverged run is finished too */
    /* The training loss at the end: the mean over the records of the last twentieth of the steps, each weighted with
     * the steps that it is a mean of. NaN where the run diverged. */
    double loss;
    double valid_error, valid_loss; /* of samples held out of the training split; NaN where there are none */
    double test_loss, test_error, test_perplexity; /* NaN where the task has none */
    int64_t skipped;                               /* steps */
    metrics_time end;
} metrics_summary;

metrics_summary psgd__metrics_summary(const metrics_run *run);

#endif
