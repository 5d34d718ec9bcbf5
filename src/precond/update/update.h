/* What an update of the whole tensor and one of some of its rows share. */
#ifndef PSGD_PRECOND_UPDATE_UPDATE_H
#define PSGD_PRECOND_UPDATE_UPDATE_H

#include "precond/update/whitened.h"
#include "precond/update/normaliser.h"

#define update            PSGD_TYPED(update)
#define update_unit       PSGD_TYPED(psgd__update_unit)
#define update_step       PSGD_TYPED(psgd__update_step)
#define update_start_from PSGD_TYPED(psgd__update_start_from)
#define update_count      PSGD_TYPED(psgd__update_count)

typedef struct update {
    psgd_precond *self;
    normaliser measure;
    int exponent;        /* A and B are the true ones times 2^-exponent */
    double count;        /* pairs */
    double size;         /* in h, and in v */
    double h_max, v_max; /* their largest entries */
    bool settle;         /* a unit has come near a limit of the number type */
} update;

/* The step of one unit from A, B and the grams of a pair, an update behind data. */
psgd_status update_unit(group *unit, const group_pair *given, void *data);

/* The same from an R that is there already. */
void update_step(update *u, group *unit, const unit_measure *m);

/* The scale of I that would make ||Ph|| = ||v|| for this pair: Q = sqrt(||v|| / ||h||) I. */
void update_start_from(psgd_precond *self, const formed *f);

/* After all units have made their steps. */
void update_count(const update *u);

#endif
