/* --load FILE: groups from shared objects. */
#ifndef PSGD_CLI_LOAD_H
#define PSGD_CLI_LOAD_H

#include "cli/cli.h"

/* A context with the groups of every --load in it. EXIT_SUCCESS, or the status to exit with, the sentence printed. */
int cli_context(const cli_args *args, psgd_context **context);

#endif
