/* The registry of built-in groups. To add one: a file with its table, a line in ops.h, a line here. */
#include "group/ops.h"
#include "group/builtin.h"

static const group_ops *const builtin[] = {
    &identity_ops, &scale_ops, &diag_ops, &tri_ops,  &tril_ops, &dense_ops, &norm_ops, &bnorm_ops, &xmat_ops,
    &t_ops,        &block_ops, &sum_ops,  &kron_ops, &scan_ops, &scaw_ops,  &lra_ops,  &splu_ops,
};

const group_ops *psgd__builtin_at(int index)
{
    return builtin[index];
}

int PSGD_TYPED(psgd__builtin_count)(void)
{
    return (int)(sizeof builtin / sizeof builtin[0]);
}

const group_kind *PSGD_TYPED(psgd__builtin_kind)(int index)
{
    return &builtin[index]->kind;
}
