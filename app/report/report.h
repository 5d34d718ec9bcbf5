/* Runs side by side: one page to look at, and figures for papers. */
#ifndef PSGD_REPORT_REPORT_H
#define PSGD_REPORT_REPORT_H

#include "core/text.h"
#include "report/metrics.h"

typedef struct report {
    const psgd_context *context;
    metrics_run **runs;
    int run_count;
    int64_t run_room;
} report;

/* Adds a run: a log, a folder with one, or a folder of such folders, which are added in the order of their names. Runs
 * of one task and name get their path next to the name. Start with {.context = c}; on failure what was added stays. */
psgd_status psgd__report_add(report *to, const char *path);
void psgd__report_free(report *to);

/* What legends call a run: the name that it was given, else method, group and learning rate, and its own name where
 * another run of the report has the same. */
void psgd__report_label(const report *from, int run, char *label, size_t room);

/* One page that needs nothing else, no network either. Curves of more than REPORT_POINTS points keep the min and the
 * max of each stretch. */
enum { REPORT_POINTS = 4000 };
psgd_status psgd__report_page(const report *from, const char *path);

/* What a figure shows: a metric ("valid perplexity"; NULL: the first that the runs of a task share) against "step",
 * "epoch" or "seconds", with a title (NULL: the task). */
typedef struct report_view {
    const char *metric, *against, *title;
} report_view;

/* For each task one figure, as stem.svg and stem.png, with the task in the name where there are several; a line
 * to written names each. */
psgd_status psgd__report_figure(const report *from, const report_view *view, const char *stem, text *written);

#endif
