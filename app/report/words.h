/* Methods and metrics as people write them, for legends, titles and axes. */
#ifndef PSGD_REPORT_WORDS_H
#define PSGD_REPORT_WORDS_H

#include <stddef.h>

/* "adam" is Adam, "psgd-fisher" is PSGD, Fisher; so are the names of psgd paper: "newton-scan-10" is PSGD, Newton,
 * scan, every 10 steps. What is neither stays as it is. */
void psgd__words_method(const char *method, char *words, size_t room);

/* "train loss" is training loss, "valid top5_error" is validation top-5 error. */
void psgd__words_metric(const char *metric, char *words, size_t room);

#endif
