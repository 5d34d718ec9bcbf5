#ifndef PSGD_CLI_PLAN_H
#define PSGD_CLI_PLAN_H

#include "cli/cli.h"

/* psgd group --plan: a group for each of --shapes within --budget and --time. */
int cli_plan(const cli_args *args, const psgd_context *context);

#endif
