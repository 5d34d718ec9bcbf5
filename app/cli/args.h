#ifndef PSGD_CLI_ARGS_H
#define PSGD_CLI_ARGS_H

#include "cli/cli.h"

/* Reads the words after the verb and runs it. */
int cli_run(const cli_verb *verb, int argc, char **argv);

#endif
