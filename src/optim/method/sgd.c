/* Plain gradient descent, "sgd": d = g. */
#include "optim/method/methods.h"

static void sgd_advance(const method_args *a)
{
    la_step_plain(a->part->n, &a->rule, a->g, a->x, a->out);
}

const method_ops METHOD_OPS(sgd) = {
    .kind = {.name = "sgd", .summary = "gradient descent", .lr = 0.01, .rows = true},
    .advance = sgd_advance,
};
