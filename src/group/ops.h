/* The tables of the built-in groups, one line each. builtin.c lists them in the order in which --list shows them. */
#ifndef PSGD_GROUP_OPS_H
#define PSGD_GROUP_OPS_H

#include "group/group.h"

#define identity_ops PSGD_TYPED(psgd__identity_ops)
#define scale_ops    PSGD_TYPED(psgd__scale_ops)
#define diag_ops     PSGD_TYPED(psgd__diag_ops)
#define tri_ops      PSGD_TYPED(psgd__tri_ops)
#define tril_ops     PSGD_TYPED(psgd__tril_ops)
#define dense_ops    PSGD_TYPED(psgd__dense_ops)
#define norm_ops     PSGD_TYPED(psgd__norm_ops)
#define bnorm_ops    PSGD_TYPED(psgd__bnorm_ops)
#define xmat_ops     PSGD_TYPED(psgd__xmat_ops)
#define t_ops        PSGD_TYPED(psgd__t_ops)
#define block_ops    PSGD_TYPED(psgd__block_ops)
#define sum_ops      PSGD_TYPED(psgd__sum_ops)
#define kron_ops     PSGD_TYPED(psgd__kron_ops)
#define scan_ops     PSGD_TYPED(psgd__scan_ops)
#define scaw_ops     PSGD_TYPED(psgd__scaw_ops)
#define lra_ops      PSGD_TYPED(psgd__lra_ops)
#define splu_ops     PSGD_TYPED(psgd__splu_ops)

extern const group_ops identity_ops, scale_ops, diag_ops, tri_ops, tril_ops, dense_ops, norm_ops, bnorm_ops, xmat_ops,
    t_ops, block_ops, sum_ops, kron_ops, scan_ops, scaw_ops, lra_ops, splu_ops;

#endif
