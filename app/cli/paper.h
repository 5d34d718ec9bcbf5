/* The experiments of psgd paper that train a model. */
#ifndef PSGD_CLI_PAPER_H
#define PSGD_CLI_PAPER_H

#include "cli/cli.h"
#include "paper/presets.h"

int cli_paper_runs(const cli_args *args, const paper_experiment *experiment);

#endif
