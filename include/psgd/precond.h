/* A preconditioner P = Q'Q for one tensor, Q on a matrix Lie group, fitted online.
 *
 * Arrays are of the preconditioner's number type, in C order, as many numbers as the tensor has. Distinct
 * preconditioners may be used from distinct threads. No call but create allocates (condition and factor excepted). */
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

/* Options (psgd_precond_options_text lists them): criterion, damping, step, norm, init-scale, init, pairs, integrate,
 * rows, unbiased, batch, average. options may be NULL and need not outlive the call. */
psgd_status psgd_precond_create(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                                psgd_dtype dtype, const psgd_options *options, psgd_precond **precond);
void psgd_precond_free(psgd_precond *precond);

/* The options, from 0 (psgd/options.h). */
int psgd_precond_option(int index, psgd_option_info *option);

/* Help for the options, a line each. Free it with psgd_text_free. */
psgd_status psgd_precond_options_text(const psgd_context *context, char **help);

/* One update from the pair (v, h): v ~ N(0, I), h = Hv (newton; the caller's own (dtheta, dgradient) will do as well)
 * or a gradient (fisher: damping * v is added here). v may be NULL where it is integrated out. On any failure Q is as
 * it was. */
psgd_status psgd_precond_update(psgd_precond *precond, const void *v, const void *h);

/* One update from the mean over count pairs, one after the other in v and h; count is at most the option pairs. */
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

/* y <- the operator times x; x and y may be the same array. */
psgd_status psgd_precond_apply(const psgd_precond *precond, psgd_operator what, const void *x, void *y);

/* The same for some rows of a matrix, on kron(diag,G), scan or scaw with the option rows: v, h, x and y are [count,
 * columns]. rows exact: as if v had been drawn for the other rows too, where h is zero (or damping * v), and the mean
 * over it taken. rows lazy: the other rows take no part. An update from no row at all changes nothing. */
psgd_status psgd_precond_update_rows(psgd_precond *precond, const psgd_rows *rows, const void *v, const void *h);
psgd_status psgd_precond_apply_rows(const psgd_precond *precond, psgd_operator what, const psgd_rows *rows,
                                    const void *x, void *y);

/* h'Ph + v'P^-1 v for this pair, or its expectation over v where that is integrated out (v may then be NULL) (with
 * damping as in an update): what the fit makes small in the mean. */
psgd_status psgd_precond_criterion(psgd_precond *precond, const void *v, const void *h, double *value);

/* The ratio of the largest to the smallest singular value of Q: exact for small and for diagonal factors, otherwise
 * estimated from below by power iteration. */
psgd_status psgd_precond_condition(const psgd_precond *precond, double *condition);

/* Q as dense matrices: one for each factor of a kron at the root, else one. */
int psgd_precond_factor_count(const psgd_precond *precond);
int64_t psgd_precond_factor_size(const psgd_precond *precond, int factor);
psgd_status psgd_precond_factor(const psgd_precond *precond, int factor, void *Q);

/* All that a fit has learnt, as bytes: loaded into a preconditioner created from the same spec, shape, type and options
 * it goes on to the bit. Bytes of anything else are refused and nothing has changed. */
int64_t psgd_precond_state_bytes(const psgd_precond *precond);
psgd_status psgd_precond_state_save(const psgd_precond *precond, void *bytes); /* room for state_bytes */
psgd_status psgd_precond_state_load(psgd_precond *precond, int64_t count, const void *bytes);

psgd_status psgd_precond_set_step(psgd_precond *precond, double step);
int64_t psgd_precond_size(const psgd_precond *precond);    /* numbers in the tensor */
int64_t psgd_precond_updates(const psgd_precond *precond); /* made so far */
int64_t
psgd_precond_skipped(const psgd_precond *precond); /* parts of updates that would have left the group, left out */

#ifdef __cplusplus
}
#endif
#endif
