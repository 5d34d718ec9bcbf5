/* What psgd group --plan has found, for its model of several ranks. */
#ifndef PSGD_CLI_PLAN_H
#define PSGD_CLI_PLAN_H

#include "cli/cli.h"

typedef struct plan_tensors {
    const psgd_context *context;
    psgd_dtype dtype;
    int count;
    const int *ndim;
    const int64_t *const *shapes;
    const char **specs;
} plan_tensors;

psgd_status cli_plan_ranks(const cli_args *args, const plan_tensors *tensors, int64_t ranks);

#endif
