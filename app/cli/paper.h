/* The experiments of psgd paper that have a file of their own. */
#ifndef PSGD_CLI_PAPER_H
#define PSGD_CLI_PAPER_H

#include "cli/cli.h"

/* The comma-separated list as places in names, at most so many; false with the sentence printed. */
bool cli_paper_methods(const char *list, const char *const *names, int known, int max, int *picked, int *count);

int cli_paper_wikitext2(const cli_args *args);
int cli_paper_imagenet(const cli_args *args);

#endif
