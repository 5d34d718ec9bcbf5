/* One pass from the pair (v, h) to R, and from x to Px, for groups whose R is small or as large as the tensor. */
#ifndef PSGD_LA_FUSED_FUSED_H
#define PSGD_LA_FUSED_FUSED_H

#include <stdbool.h>

#include "la/view.h"

#define la_diag_fused     PSGD_TYPED(psgd__la_diag_fused)
#define la_diag_entries   PSGD_TYPED(psgd__la_diag_entries)
#define la_diag_apply     PSGD_TYPED(psgd__la_diag_apply)
#define la_cross_take     PSGD_TYPED(psgd__la_cross_take)
#define la_cross_step     PSGD_TYPED(psgd__la_cross_step)
#define la_cross_apply    PSGD_TYPED(psgd__la_cross_apply)
#define la_bordered       PSGD_TYPED(la_bordered)
#define la_bordered_sums  PSGD_TYPED(psgd__la_bordered_sums)
#define la_bordered_fused PSGD_TYPED(psgd__la_bordered_fused)
#define la_bordered_apply PSGD_TYPED(psgd__la_bordered_apply)

/* r_i <- (q_i (h_i + damping v_i))^2 + sign (v_i / q_i)^2; returns max |r|. */
real la_diag_fused(int64_t n, const real *q, const real *h, const real *v, real damping, int sign, real *r);

/* q_i <- (1 - step sign(a_i^2 - b_i^2)) q_i, within LA_MIN and LA_MAX, with a = q (h + damping v) and b = v / q, in one
 * pass. An entry whose a is 0 does not grow past 1 / vanishing, one whose b is 0 does not shrink below vanishing. An
 * input that is not finite leaves its entry in range and is not reported. */
void la_diag_entries(int64_t n, const real *h, const real *v, real damping, double step, double vanishing, real *q);

void la_diag_apply(int64_t n, const real *q, const real *x, real *y); /* y <- q^2 x; x may be y */

/* Q = diag(d) + antidiag(e), flat; R and Q are d and then e. la_cross_take: R <- Pi(aa' + sign bb') for a = Q(h +
 * damping v), b = Q^-T v, with max |R| and ||R||_2. la_cross_step: Q <- (I - c R) Q. la_cross_apply: y <- Q'Q x; x
 * may be y. */
void la_cross_take(int64_t n, const real *Q, const real *h, const real *v, real damping, int sign, real *R,
                   real *largest, real *spectral);
void la_cross_step(int64_t n, real c, const real *R, real *Q);
void la_cross_apply(int64_t n, const real *Q, const real *x, real *y);

/* A rows x columns matrix X under Q1 = diag(row) on the left and Q2 on the right, where Q2 is diag(diagonal), or that
 * with a last column (side_is_row: a last row) above (left of) its last entry. */
typedef struct la_bordered {
    int64_t rows, columns;
    const real *row, *diagonal;
    const real *side; /* [columns - 1], or NULL */
    bool side_is_row;
    real *scratch; /* 2 la_bordered_ld(columns) elements */
    double *sums;  /* la_bordered_sums elements, for la_bordered_fused */
} la_bordered;

/* n elements, and what lets the next array start on a line of a cache. Long arrays are not a multiple of 4 KB, or
 * nearly, apart: arrays in use at the same time would meet in the ways of the first-level cache. */
static inline int64_t la_bordered_ld(int64_t n)
{
    enum { LINE = 64 / sizeof(real), SETS = 64, APART = 10 };
    int64_t lines = (n + LINE - 1) / LINE, beyond = lines % SETS;
    if (lines > SETS && beyond < APART) lines += APART - beyond;
    if (lines > SETS && beyond > SETS - APART) lines += SETS - beyond + APART;
    return lines * LINE;
}

/* Rows are split into parts, whatever the number of threads, and each has sums of its own. */
int64_t la_bordered_sums(int64_t rows, int64_t columns);

/* With A = Q1 (h + damping v) Q2' and B = Q1^-1 v Q2^-1: row_sums_i <- the sum over A_i^2 + sign B_i^2, and the same
 * over columns; side_sums_j <- the sum of A_j A_last + sign B_j B_last. */
void la_bordered_fused(const la_bordered *t, const real *h, const real *v, real damping, int sign, double *row_sums,
                       double *column_sums, double *side_sums);

void la_bordered_apply(const la_bordered *t, const real *x, real *y); /* y <- Q1'Q1 x Q2'Q2; x may be y */

#endif
