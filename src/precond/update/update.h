/* What an update from whole tensors and one from some rows share. */
#ifndef PSGD_PRECOND_UPDATE_UPDATE_H
#define PSGD_PRECOND_UPDATE_UPDATE_H

#include "precond/update/normaliser.h"
#include "precond/update/whitened.h"

#define update            PSGD_TYPED(update)
#define update_unit       PSGD_TYPED(psgd__update_unit)
#define update_step       PSGD_TYPED(psgd__update_step)
#define update_start_from PSGD_TYPED(psgd__update_start_from)
#define update_count      PSGD_TYPED(psgd__update_count)

typedef struct update {
    psgd_precond *self;
    normaliser measure;
    int next;            /* index of the next unit: units make their steps in the order of self->units */
    int exponent;        /* A and B are the true ones times 2^-exponent */
    double count;        /* pairs */
    double size;         /* elements of h, and of v */
    double h_max, v_max; /* max |h|, max |v| */
    bool settle;         /* a unit has come near a limit of guard.c */
} update;

/* The step of the next unit from A, B and the grams of a pair; data is an update. */
psgd_status update_unit(group *unit, const group_pair *given, void *data);

/* The same from an R that is known already. Fills in unit, record and step of the measure. */
void update_step(update *u, group *unit, unit_measure *m);

/* The scale of I that would make ||Ph|| = ||v|| for this pair: Q = sqrt(||v|| / ||h||) I. */
void update_start_from(psgd_precond *self, const whitened_pair *w);

/* After all units have made their steps. */
void update_count(const update *u);

#endif
