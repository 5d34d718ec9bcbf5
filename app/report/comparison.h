/* Several optimizers on one task: a row each, as a table to read and as JSON for programs. */
#ifndef PSGD_REPORT_COMPARISON_H
#define PSGD_REPORT_COMPARISON_H

#include "core/text.h"
#include "report/summary.h"

#define COMPARISON_FILE "compare.json"

enum { COMPARISON_MAX_RATES = 64, COMPARISON_MAX_SEEDS = 64 };

typedef struct comparison_run {
    char folder[256]; /* within that of the comparison */
    char rate[32];    /* the learning rate */
    uint64_t seed;
    metrics_summary result;
} comparison_run;

/* What one optimizer made of it: with every learning rate of its grid on the first seed, and with the best one on all
 * seeds. Without a grid there are no trials. */
typedef struct comparison_row {
    const char *label;
    comparison_run trials[COMPARISON_MAX_RATES], runs[COMPARISON_MAX_SEEDS];
    int trial_count, run_count;
} comparison_row;

typedef struct comparison {
    const psgd_context *context;
    const char *model, *data;
    const comparison_row *rows;
    int row_count;
} comparison;

/* The trial with the lowest error, or without classes loss, on samples held out for validation, else with the lowest
 * training loss at the end; -1 where all have diverged. */
int psgd__comparison_best(const comparison_row *row);

/* Medians over the runs that did not diverge. */
void psgd__comparison_table(const comparison *from, text *to);

/* Refuses a folder whose COMPARISON_FILE is of another model or other data. */
psgd_status psgd__comparison_check(const comparison *now, const char *folder);

/* folder/COMPARISON_FILE. */
psgd_status psgd__comparison_write(const comparison *from, const char *folder);

#endif
