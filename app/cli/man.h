#ifndef PSGD_CLI_MAN_H
#define PSGD_CLI_MAN_H

#include "cli/cli.h"

/* The manual page psgd(1) on stdout, from the tables that --help shows. */
void cli_print_man(const cli_verb *const *verbs, int count);

#endif
