/* How far long work has come: a bar on a terminal, a plain line now and then elsewhere, nothing for short work. */
#ifndef PSGD_REPORT_PROGRESS_H
#define PSGD_REPORT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

typedef struct progress {
    FILE *to;
    const char *what; /* "update", as in "update 10 of 50" */
    bool terminal, drawn;
    double began, shown; /* seconds */
    int64_t from;        /* where the count stood when it was first shown: a resumed run is not that fast */
    char note[48];       /* shown next to the count */
} progress;

void psgd__progress_start(progress *self, FILE *to, const char *what);
void psgd__progress_show(progress *self, int64_t done, int64_t total);
/* Before show, for what that one shows. */
void psgd__progress_note(progress *self, const char *format, ...) PSGD_PRINTF(2, 3);
void psgd__progress_end(progress *self); /* takes the bar away */

#endif
