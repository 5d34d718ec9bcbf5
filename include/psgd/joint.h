/* A joint preconditioner: one group over several tensors as one vector.
 *
 * The vector is the concatenation of the tensors in the order given; v, h and x are passed as one array per tensor. The
 * preconditioner gathers them into its workspace, so the parameters stay where they are. For groups that act on a flat
 * vector: diag, tri, dense, xmat, lra(r), splu(r), and sums of them. */
#ifndef PSGD_JOINT_H
#define PSGD_JOINT_H

#include <psgd/precond.h>

#ifdef __cplusplus
extern "C" {
#endif

/* sizes are the numbers of elements of count tensors. Otherwise as psgd_precond_create. The calls of psgd/precond.h
 * take such a preconditioner too, with the whole vector as one array. */
psgd_status psgd_precond_create_joint(const psgd_context *context, const char *spec, int count, const int64_t *sizes,
                                      psgd_dtype dtype, const psgd_options *options, psgd_precond **precond);

/* One update from a pair given as one array per tensor. v may be NULL where it is integrated out. */
psgd_status psgd_precond_update_segments(psgd_precond *precond, const void *const *v, const void *const *h);

/* y <- the operator applied to x; x and y may be the same arrays. */
psgd_status psgd_precond_apply_segments(psgd_precond *precond, psgd_operator what, const void *const *x,
                                        void *const *y);

/* As psgd_precond_criterion. */
psgd_status psgd_precond_criterion_segments(psgd_precond *precond, const void *const *v, const void *const *h,
                                            double *value);

int psgd_precond_segment_count(const psgd_precond *precond); /* 0 where it is not joint */
int64_t psgd_precond_segment_size(const psgd_precond *precond, int segment);

#ifdef __cplusplus
}
#endif
#endif
