/* One group over all parameters as one long vector, without putting the parameters together.
 *
 * The vector is the tensors one after the other, in the order in which they are given; v, h and g come as one array for
 * each of them. They are gathered in the workspace of the preconditioner and scattered from it; the parameters stay
 * where they are. Groups that act on a flat vector are meant: diag, tri, dense, xmat, lra(r), splu(r), and sums. */
#ifndef PSGD_JOINT_H
#define PSGD_JOINT_H

#include <psgd/precond.h>

#ifdef __cplusplus
extern "C" {
#endif

/* sizes has the number of elements of each of count tensors. What psgd_precond_create says holds here too; every call
 * that takes a preconditioner takes this one, with whole vectors. */
psgd_status psgd_precond_create_joint(const psgd_context *context, const char *spec, int count, const int64_t *sizes,
                                      psgd_dtype dtype, const psgd_options *options, psgd_precond **precond);

/* One update from a pair that comes as an array for each tensor. v may be NULL where it is integrated out. */
psgd_status psgd_precond_update_segments(psgd_precond *precond, const void *const *v, const void *const *h);

/* y <- the operator times x; x and y may be the same arrays. */
psgd_status psgd_precond_apply_segments(psgd_precond *precond, psgd_operator what, const void *const *x,
                                        void *const *y);

/* The criterion of such a pair: see psgd_precond_criterion. */
psgd_status psgd_precond_criterion_segments(psgd_precond *precond, const void *const *v, const void *const *h,
                                            double *value);

int psgd_precond_segment_count(const psgd_precond *precond); /* 0 where it is not joint */
int64_t psgd_precond_segment_size(const psgd_precond *precond, int segment);

#ifdef __cplusplus
}
#endif
#endif
