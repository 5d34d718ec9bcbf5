/* What a step is divided by: one function for each normaliser, whatever the group, the criterion and the update rule.
 */
#ifndef PSGD_PRECOND_UPDATE_NORMALISER_H
#define PSGD_PRECOND_UPDATE_NORMALISER_H

#include "group/group.h"
#include "precond/precond.h"

#define normaliser_at   PSGD_TYPED(psgd__normaliser_at)
#define normaliser_part PSGD_TYPED(psgd__normaliser_part)
#define unit_measure    PSGD_TYPED(unit_measure)

/* What a normaliser may look at. The true R is weight * R: A and B were scaled by a common power of two, and R is a sum
 * over the pairs, not their mean. */
typedef struct unit_measure {
    group *unit;
    precond_unit *record; /* of that unit */
    const group_pair *pair;
    real *R;         /* Pi(AA' - BB') and what was integrated out */
    real *spare;     /* of the same size, where normaliser_needs_spare */
    double largest;  /* max |R| */
    double spectral; /* ||R||_2 or a bound, or infinity where it has not been computed */
    bool fused;      /* pair is empty; spare, where needed, is Pi(AA' + BB') already */
    int exponent;    /* A and B of the pair are the true ones times 2^-exponent */
    double weight;
    double step;
} unit_measure;

/* Returns the factor c of Q <- (I - c R) Q, for R as it is stored. */
typedef double (*normaliser)(const unit_measure *m);

normaliser normaliser_at(norm_choice choice);

/* The same for a part of a family's own update; 0 where its R is. running is the part's running maximum. */
double normaliser_part(norm_choice choice, const group_part *part, double *running, double weight, double step);

static inline bool normaliser_needs_spare(norm_choice choice)
{
    return choice == NORM_SECOND;
}

#endif
