#ifndef PSGD_CLI_MINIMIZE_CHECK_H
#define PSGD_CLI_MINIMIZE_CHECK_H

#include "core/status.h"
#include <psgd/minimize.h>

/* Prints what psgd_check_gradient finds at x; code becomes the exit status. */
psgd_status cli_check_gradient(const psgd_function *function, int64_t n, const double *x, int *code);

#endif
