/* P of psgd_minimize: the last pairs (v, h), h close to |H| v, on top of a base.
 *
 * For one pair the minimiser of the paper's criterion h'Ph + v'P^-1 v satisfies Ph = v, the secant equation; BFGS in
 * product form is the member of that family which keeps P positive. The pairs are those of steps (dtheta, dgradient)
 * and of products (p, Hp); where v'h < 0, h is negated: the criterion sees |H|.
 *
 * The base is a multiple of I; or of the diagonal D that minimises the criterion over all products in closed form,
 * where it explains new pairs better than I does; or Q'Q of a group that the user named. Up to SECANT_DENSE unknowns P
 * is a matrix as soon as one solve has produced more pairs than are kept.
 *
 * Under bounds only the unknowns with mask 1 take part; mask NULL: all of them. */
#ifndef PSGD_OPTIM_SECANT_H
#define PSGD_OPTIM_SECANT_H

#include <stdbool.h>

#include "core/status.h"
#include <psgd/context.h>
#include <psgd/precond.h>

enum { SECANT_MAX = 20, SECANT_DENSE = 512 };

typedef struct secant_pair {
    double *v, *h;
} secant_pair;

typedef struct secant {
    int64_t n;
    int room, count; /* of pair; the oldest is the first */
    secant_pair pair[SECANT_MAX];
    double R[SECANT_MAX][SECANT_MAX]; /* R_ij = v_i'h_j for i <= j; R_ii = 0: the pair is left out */
    double gamma;                     /* of the base */

    int fresh_room, fresh_count; /* pairs of the present solve, as evenly spread over it as the room allows */
    int64_t learned, stride;
    secant_pair fresh[SECANT_MAX];

    double *sum_v, *sum_h, *D;   /* sums of v^2 / |v'h| and h^2 / |v'h|; the diagonal */
    double score_plain, score_D; /* mean of log sqrt(h'Bh v'B^-1v) / |v'h| over recent pairs */
    double plain_total, D_total; /* of the present solve */
    int64_t scored;
    bool has_D;

    psgd_precond *group; /* NULL: none was named */
    double *P, *P_next;  /* [n][n] or NULL */
    bool dense, dense_next;
    const double *mask;
    double *work; /* [n] */
} secant;

/* Vectors of n elements that secant_place needs, for this many pairs and pairs of a solve. */
int64_t psgd__secant_vectors(int64_t n, int room, int fresh_room);
void psgd__secant_place(secant *s, int64_t n, int room, int fresh_room, double *memory);
void psgd__secant_reset(secant *s);

/* y <- P x. x and y are different arrays. */
void psgd__secant_apply(secant *s, const double *x, double *y);

/* A pair of a solve; P stays as it is until the commit, so that conjugate gradients see one operator. */
void psgd__secant_learn(secant *s, const double *v, const double *h);
psgd_status psgd__secant_commit(secant *s);

/* The pair of a step, at once; v and h may be overwritten. */
psgd_status psgd__secant_step(secant *s, double *v, double *h);

/* After a change of the mask. */
void psgd__secant_mask(secant *s, const double *mask);

#endif
