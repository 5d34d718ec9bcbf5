/* The experiments of psgd paper that have a file of their own. */
#ifndef PSGD_CLI_PAPER_H
#define PSGD_CLI_PAPER_H

#include "cli/cli.h"

int cli_paper_wikitext2(const cli_args *args);
int cli_paper_imagenet(const cli_args *args);

#endif
