/* The parts of an update of Q. */
#ifndef PSGD_PRECOND_UPDATE_UPDATE_H
#define PSGD_PRECOND_UPDATE_UPDATE_H

#include <math.h>

#include "group/group.h"
#include "precond/precond.h"

#define whitened_pair       PSGD_TYPED(whitened_pair)
#define whiten_load         PSGD_TYPED(psgd__whiten_load)
#define whiten_refuse       PSGD_TYPED(psgd__whiten_refuse)
#define whiten_norms        PSGD_TYPED(psgd__whiten_norms)
#define whiten_images       PSGD_TYPED(psgd__whiten_images)
#define whiten_level        PSGD_TYPED(psgd__whiten_level)
#define whiten_range        PSGD_TYPED(psgd__whiten_range)
#define whiten_floor        PSGD_TYPED(psgd__whiten_floor)
#define whiten_keep_average PSGD_TYPED(psgd__whiten_keep_average)
#define normaliser_at       PSGD_TYPED(psgd__normaliser_at)
#define normaliser_part     PSGD_TYPED(psgd__normaliser_part)
#define unit_measure        PSGD_TYPED(unit_measure)
#define entries_signs       PSGD_TYPED(psgd__entries_signs)
#define guard_start         PSGD_TYPED(psgd__guard_start)
#define guard_after         PSGD_TYPED(psgd__guard_after)
#define guard_settle        PSGD_TYPED(psgd__guard_settle)
#define update              PSGD_TYPED(update)
#define update_unit         PSGD_TYPED(psgd__update_unit)
#define update_step         PSGD_TYPED(psgd__update_step)
#define start_from          PSGD_TYPED(psgd__start_from)
#define update_count        PSGD_TYPED(psgd__update_count)
#define update_begin        PSGD_TYPED(psgd__update_begin)

/* whitened.c, the whitened pair: from the caller's (v, h) to A = Qh and B = Q^-T v in the workspace, safe to square. */

typedef struct whitened_pair {
    group_pair pair;
    int h_exponent, v_exponent; /* the copies are h 2^-h_exponent and v 2^-v_exponent */
    double h_max, v_max;        /* max |h| and max |v| of what was copied, before that scaling */
    double h_norm, v_norm;      /* after whiten_norms */
    int exponent;               /* after whiten_level: pair has A 2^-exponent and B 2^-exponent */
    double image;               /* after whiten_level: log2 of max |image of h| */
} whitened_pair;

/* 2^(2 exponent): the square of a value over the square of its scaled copy. Clamped to 2^+-1000, so that products and
 * quotients with it stay finite. */
static inline double whiten_weight(int exponent)
{
    return ldexp(1, exponent > 500 ? 1000 : exponent < -500 ? -1000 : 2 * exponent);
}

/* Copies h, with the damping and average that the criterion asks for, and v: count pairs of n elements, which is the
 * size of the tensor or, with row-sparse gradients, of its present rows. Refuses what is not finite. */
psgd_status whiten_load(psgd_precond *self, int64_t n, int64_t count, const real *v, const real *h, whitened_pair *w);
psgd_status whiten_refuse(const char *name, int64_t n, const real *x); /* says which entry is not finite */

/* Frobenius norms of h and v from their copies; where there is no v, sqrt(n), its expectation. */
void whiten_norms(int64_t n, whitened_pair *w);

/* A and B <- the images of h and v, those of a whole Q; then whiten_level. */
psgd_status whiten_images(psgd_precond *self, rule_images images, int64_t count, whitened_pair *w);

/* Scales A and B, which are images already, by a common power of two where their squares would overflow or underflow;
 * other is the size of what was integrated out. */
psgd_status whiten_level(int64_t n, double other, whitened_pair *w);

/* h <- h + epsilon (max |h| / max |v|) v, or normal deviates where there is no v: what is below the rounding of h
 * counts as unknown. Where h is zero, P would grow by a factor every update without it, as its images are Ph and v.
 * Returns the factor of v where that was drawn, else 0. */
double whiten_floor(const psgd_precond *self, int64_t n, whitened_pair *w);

/* Scales A = Qh by a power of two, kept in h_exponent, where Q'A might overflow or underflow. */
void whiten_range(int64_t n, whitened_pair *w);

/* s <- the moving average with h in it, where unbiased. */
void whiten_keep_average(psgd_precond *self, const real *h);

/* normaliser.c, what a step is divided by: one function for each normaliser, whatever the group and the criterion. */

/* What a normaliser may look at. The true R is weight * R: A and B were scaled by a common power of two, and R is a sum
 * over the pairs, not their mean. */
typedef struct unit_measure {
    group *unit;
    precond_unit *record;   /* of that unit */
    const group_pair *pair; /* empty where R comes from a fused path */
    real *R;                /* Pi(AA' - BB') and what was integrated out */
    real *second;           /* Pi(AA' + BB') and what was integrated out, where normaliser_needs_second */
    double largest;         /* max |R| */
    double spectral;        /* ||R||_2 or a bound, or infinity where it has not been computed */
    int exponent;           /* A and B of the pair are the true ones times 2^-exponent */
    double weight;
    double step, decay;
    rng_stream draw; /* for estimates of norms */
} unit_measure;

/* Returns the factor c of Q <- (I - c R) Q, for R as it is stored. */
typedef double (*normaliser)(unit_measure *m);

normaliser normaliser_at(norm_choice choice);

/* entries.c: R <- sign R, and largest and spectral follow, for the normaliser entry. Entries that a further step would
 * take out of range, or that have nothing to be fitted to, get 0. */
void entries_signs(unit_measure *m, double vanishing);

/* The same for a part of a family's own update; 0 where its R is. running is the part's running maximum. */
double normaliser_part(const precond_settings *set, const group_part *part, double *running, double weight);

static inline bool normaliser_needs_second(norm_choice choice)
{
    return choice == NORM_SECOND;
}

/* guard.c, which keeps the entries of Q within exponents that can be squared. */

/* The bounds of every unit become unknown. */
void guard_start(psgd_precond *self);

/* After a step of size c with max |R| = largest. true where the bounds have reached a limit: the caller then calls
 * guard_settle after the steps of all units. */
bool guard_after(precond_unit *unit, double c, double largest);

/* Computes the bounds of every unit and, where one is outside, balances the krons and computes them again. Units that
 * are still outside are rescaled or reset; returns how many. */
int guard_settle(psgd_precond *self);

/* update.c, what an update from whole tensors and one from some rows share. */

typedef struct update {
    psgd_precond *self;
    const update_rule *rule;
    int next;            /* index of the next unit: units make their steps in the order of self->units */
    int exponent;        /* A and B are the true ones times 2^-exponent */
    double count;        /* pairs */
    double size;         /* elements of h, and of v */
    double h_max, v_max; /* max |h|, max |v| */
    bool settle;         /* a unit has come near a limit of guard.c */
} update;

/* An update of count pairs; one without images to measure has none of w. */
update update_begin(psgd_precond *self, int64_t count, const whitened_pair *w);

/* The pair of a step whose R is known already. */
static inline group_pair update_empty_pair(int64_t n)
{
    view none = view_rows(NULL, n, 1);
    return (group_pair){.A = none, .B = none, .h = none, .v = none};
}

/* The step of the next unit from A, B and the grams of a pair; data is an update. */
psgd_status update_unit(group *unit, const group_pair *given, void *data);

/* The same from an R that is known already. Fills in the unit of the measure and what goes with it. */
void update_step(update *u, group *unit, unit_measure *m);

/* start.c: one of the first pairs of option init first, after whiten_norms. */
void start_from(psgd_precond *self, const whitened_pair *w);

/* After all units have made their steps. */
void update_count(const update *u);

#endif
