/* What the laws of a group are tried with: one unit, random elements of it, and matrices in double. */
#ifndef PSGD_GROUP_CHECK_CHECK_UNIT_H
#define PSGD_GROUP_CHECK_CHECK_UNIT_H

#include "core/rng.h"
#include "group/describe.h"
#include "group/group.h"

#define check                           PSGD_TYPED(check)
#define psgd__check_noise               PSGD_TYPED(psgd__check_noise)
#define psgd__check_fill                PSGD_TYPED(psgd__check_fill)
#define psgd__check_law                 PSGD_TYPED(psgd__check_law)
#define psgd__check_worst               PSGD_TYPED(psgd__check_worst)
#define psgd__check_multiply_out        PSGD_TYPED(psgd__check_multiply_out)
#define psgd__check_multiply_out_r      PSGD_TYPED(psgd__check_multiply_out_r)
#define psgd__check_product             PSGD_TYPED(psgd__check_product)
#define psgd__check_inner               PSGD_TYPED(psgd__check_inner)
#define psgd__check_distance            PSGD_TYPED(psgd__check_distance)
#define psgd__check_distance_transposed PSGD_TYPED(psgd__check_distance_transposed)
#define psgd__check_symmetric           PSGD_TYPED(psgd__check_symmetric)
#define psgd__check_fibres_of           PSGD_TYPED(psgd__check_fibres_of)
#define psgd__check_project             PSGD_TYPED(psgd__check_project)
#define psgd__check_random_r            PSGD_TYPED(psgd__check_random_r)
#define psgd__check_keep                PSGD_TYPED(psgd__check_keep)
#define psgd__check_put_back            PSGD_TYPED(psgd__check_put_back)
#define psgd__check_retract             PSGD_TYPED(psgd__check_retract)
#define psgd__check_step_for            PSGD_TYPED(psgd__check_step_for)
#define psgd__check_random_element      PSGD_TYPED(psgd__check_random_element)
#define psgd__check_algebra             PSGD_TYPED(psgd__check_algebra)
#define psgd__check_rules               PSGD_TYPED(psgd__check_rules)

enum { CHECK_STEPS = 4, CHECK_TRIALS = 3 }; /* that make a random element; of each law */

typedef struct check check;
struct check {
    const psgd_context *context;
    check_result *to;
    rng_stream stream;
    uint64_t next; /* of the stream */
    group *unit;
    int64_t n, fibres, r, state; /* sizes of the unit, fibres that an R is made of, values in R and in Q */
    double tolerance;
    /* Matrices n x n in double; vectors and R of the dtype. */
    double *Q, *inverse, *other, *work, *algebra;
    real *columns, *A, *B, *R, *R2, *steps, *kept, *kept2;
    double step_size[CHECK_STEPS];
    void (*laws)(check *k); /* to try on each unit */
};

double psgd__check_noise(check *k); /* uniform in (-1, 1) */
void psgd__check_fill(check *k, int64_t count, real *x);

/* One line of the report. A NaN breaks any law. */
void psgd__check_law(check *k, const char *name, const char *what, double measured, double allowed);

/* The largest of several trials makes the line. */
void psgd__check_worst(double *max, double now);

/* M <- what acts; M <- R or R'. */
void psgd__check_multiply_out(check *k, group_act act, double *M);
void psgd__check_multiply_out_r(check *k, const real *R, bool transpose, double *M);
void psgd__check_product(int64_t n, const double *X, const double *Y, double *Z);
double psgd__check_inner(int64_t n, const double *X, const double *Y);

/* max |X - Y| over the larger of 1 and max |Y|. */
double psgd__check_distance(int64_t n, const double *X, const double *Y);
double psgd__check_distance_transposed(int64_t n, const double *X, const double *Y);

/* S <- AA' + sign BB' over the fibres that stand in A and B. */
void psgd__check_symmetric(const check *k, const real *A, const real *B, int sign, double *S);
view psgd__check_fibres_of(const check *k, real *x);
void psgd__check_project(check *k, real *A, real *B, int sign, bool accumulate, real *R);
void psgd__check_random_r(check *k, real *R);
void psgd__check_keep(check *k, real *to);
void psgd__check_put_back(check *k, real *from);

/* Q <- (I - cR)Q with a copy of R, which a group may destroy. */
void psgd__check_retract(check *k, double c, const real *R);

/* A step that makes ||cR||_F = size. */
double psgd__check_step_for(check *k, const real *R, double size);

/* Q <- a random element; the steps that made it from the start are kept. */
void psgd__check_random_element(check *k);

/* Tries the laws of the projection, of R and of its norms. */
void psgd__check_algebra(check *k);

/* Tries the laws of a self-adjoint group, and the ops that update rules other than the paper's call. */
void psgd__check_rules(check *k);

#endif
