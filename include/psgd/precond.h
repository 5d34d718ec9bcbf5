/* A preconditioner P = Q'Q for one tensor, Q on a matrix Lie group, fitted online.
 *
 * Arrays have the dtype of the preconditioner and as many elements as the tensor, in C order. Different preconditioners
 * may be used from different threads; calls on one must not overlap, apply included. Of the calls below only create and
 * condition allocate. */
#ifndef PSGD_PRECOND_H
#define PSGD_PRECOND_H

#include <stdint.h>

#include <psgd/context.h>
#include <psgd/dtype.h>
#include <psgd/options.h>
#include <psgd/rows.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct psgd_precond psgd_precond;

/* options may be NULL and need not outlive the call; psgd_precond_option lists them. */
psgd_status psgd_precond_create(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                                psgd_dtype dtype, const psgd_options *options, psgd_precond **precond);
void psgd_precond_free(psgd_precond *precond);

/* The options, from 0 (psgd/options.h). */
int psgd_precond_option(int index, psgd_option_info *option);

/* One update of Q from the pair (v, h). Criterion newton: v ~ N(0, I) and h = Hv, or (dtheta, dgradient) of the caller.
 * Criterion fisher: h is a gradient, to which damping * v is added here. v may be NULL where it is integrated out. On
 * failure Q is unchanged. */
psgd_status psgd_precond_update(psgd_precond *precond, const void *v, const void *h);

/* One update from the mean over count pairs, stored one after the other in v and h; count is at most the option pairs.
 */
psgd_status psgd_precond_update_pairs(psgd_precond *precond, int64_t count, const void *v, const void *h);

typedef enum psgd_operator {
    PSGD_APPLY_P, /* Q'Q     */
    PSGD_APPLY_P2,
    PSGD_APPLY_Q,
    PSGD_APPLY_QT,
    PSGD_APPLY_P_INVERSE,
    PSGD_APPLY_P2_INVERSE,
    PSGD_APPLY_Q_INVERSE,
    PSGD_APPLY_QT_INVERSE
} psgd_operator;

/* y <- the operator applied to x; x and y may be the same array. */
psgd_status psgd_precond_apply(const psgd_precond *precond, psgd_operator what, const void *x, void *y);

/* The same for some rows of a matrix, on kron(diag,G), scan or scaw with the option rows: v, h, x and y are [count,
 * columns]. rows exact: the absent rows have h = 0 (or damping * v), and the expectation over their v is taken. rows
 * lazy: absent rows are ignored. An update with no rows changes nothing. */
psgd_status psgd_precond_update_rows(psgd_precond *precond, const psgd_rows *rows, const void *v, const void *h);
psgd_status psgd_precond_apply_rows(const psgd_precond *precond, psgd_operator what, const psgd_rows *rows,
                                    const void *x, void *y);

/* h'Ph + v'P^-1 v for this pair, with damping as in an update: the fit minimises its mean. Where v is integrated out,
 * its expectation over v; v may then be NULL. */
psgd_status psgd_precond_criterion(psgd_precond *precond, const void *v, const void *h, double *value);

/* The condition number of Q, largest over smallest singular value: exact for small and for diagonal factors, otherwise
 * a lower bound by power iteration. */
psgd_status psgd_precond_condition(const psgd_precond *precond, double *condition);

/* Q as dense matrices, row-major with factor_size rows and columns: one for each factor of a kron at the root, else
 * one. */
int psgd_precond_factor_count(const psgd_precond *precond);
int64_t psgd_precond_factor_size(const psgd_precond *precond, int factor);
psgd_status psgd_precond_factor(const psgd_precond *precond, int factor, void *Q);

/* The values that Q is made of, for a program that applies a copy of Q elsewhere, on a device say: those of each group
 * of the tree that psgd_group_tree shows, a group before its parts.
 *
 *     scale c; diag [n]; norm and bnorm d [n - 1], s, c [n - 1]; xmat d [n], e [n]; tri, tril and dense Q [n][n];
 *     block C; lra(r) d [n], U [r][n], V [r][n]; splu(r), m = n - r, of L and of U' each T [r][r], X [r][m], d [m];
 *     a group of the program's own: its array; identity, kron, sum and tiles have none of their own. */
int64_t psgd_precond_element_count(const psgd_precond *precond);
psgd_status psgd_precond_elements(const psgd_precond *precond, void *elements); /* [element_count] */

/* The state of a fit as bytes. Loaded into a preconditioner created with the same spec, shape, dtype and options, the
 * fit resumes bit-for-bit. Other bytes are refused and change nothing. */
int64_t psgd_precond_state_bytes(const psgd_precond *precond);
psgd_status psgd_precond_state_save(const psgd_precond *precond, void *bytes); /* [state_bytes] */
psgd_status psgd_precond_state_load(psgd_precond *precond, int64_t count, const void *bytes);

/* The spec of its group; where it was auto, the one that was chosen. It belongs to the preconditioner. */
const char *psgd_precond_spec(const psgd_precond *precond);

psgd_status psgd_precond_set_step(psgd_precond *precond, double step);
int64_t psgd_precond_size(const psgd_precond *precond);      /* elements of the tensor */
int64_t psgd_precond_max_pairs(const psgd_precond *precond); /* of one update: the option pairs */
int psgd_precond_needs_v(const psgd_precond *precond);       /* 0 where v is integrated out */
int64_t psgd_precond_updates(const psgd_precond *precond);   /* so far; with tiles, of the tile with the most */

/* Parts of updates (that of one factor, say) that were skipped because Q would have left the group. */
int64_t psgd_precond_skipped(const psgd_precond *precond);

#ifdef __cplusplus
}
#endif
#endif
