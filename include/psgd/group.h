/* Group specs: what there is, and what a spec costs on a tensor. The grammar is in the README and in psgd group --help.
 */
#ifndef PSGD_GROUP_H
#define PSGD_GROUP_H

#include <stdint.h>

#include <psgd/context.h>
#include <psgd/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The names that a context knows, from 0; NULL past the last. context may be NULL. */
const char *psgd_group_name(const psgd_context *context, int index);
const char *psgd_group_summary(const psgd_context *context, int index);
const char *psgd_group_formula(const psgd_context *context, int index); /* numbers stored, in terms of n */

/* What a group on a tensor of this shape stores and costs. Nothing of that size is allocated to find out. */
psgd_status psgd_group_cost(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                            psgd_dtype dtype, int64_t *size, int64_t *bytes, double *update_flops, double *update_bytes,
                            double *apply_flops, double *apply_bytes);

/* The spec as a tree, one line a group, with sizes and numbers. Free the text with psgd_text_free. */
psgd_status psgd_group_tree(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                            psgd_dtype dtype, char **tree);
/* Tries the laws that a group must keep on random elements: product and inverse stay inside, <Qx, Q^-T y> = <x, y>, the
 * projection is idempotent and orthogonal, R is the relative gradient, retract stays inside, and more. *broken is the
 * number of laws that do not hold; report (may be NULL) has a line for each law, with what was measured and what is
 * allowed. Free it with psgd_text_free. */
psgd_status psgd_group_check(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                             psgd_dtype dtype, uint64_t seed, int *broken, char **report);
void psgd_text_free(const psgd_context *context, char *chars);

#ifdef __cplusplus
}
#endif
#endif
