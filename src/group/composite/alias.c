/* Names that stand for other specs: t transposes what is below it when the group is built, scan and scaw are short
 * forms. */
#include "group/group.h"

const group_ops GROUP_OPS(t) = {
    .kind = {.name = "t",
             .summary = "t(G): the transposes of G",
             .formula = "as G",
             .min_children = 1,
             .max_children = 1,
             .sizes = SIZES_SAME,
             .self_adjoint = true},
};

const group_ops GROUP_OPS(scan) = {
    .kind = {.name = "scan",
             .summary = "scaling and normalisation: kron(diag,norm)",
             .formula = "m + 2n - 1",
             .alias = "kron(diag,norm)",
             .place = PLACE_TENSOR},
};

const group_ops GROUP_OPS(scaw) = {
    .kind = {.name = "scaw",
             .summary = "scaling and whitening: kron(diag,tri)",
             .formula = "m + n(n+1)/2",
             .alias = "kron(diag,tri)",
             .place = PLACE_TENSOR},
};
