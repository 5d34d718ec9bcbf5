/* Keeps the entries of Q within exponents that can be squared: see guard.c. */
#ifndef PSGD_PRECOND_UPDATE_GUARD_H
#define PSGD_PRECOND_UPDATE_GUARD_H

#include "group/group.h"
#include "precond/precond.h"

#define guard_start  PSGD_TYPED(psgd__guard_start)
#define guard_after  PSGD_TYPED(psgd__guard_after)
#define guard_settle PSGD_TYPED(psgd__guard_settle)

/* The bounds of every unit become unknown. */
void guard_start(psgd_precond *self);

/* After a step of size c with max |R| = largest. true where the bounds have reached a limit: the caller then calls
 * guard_settle after the steps of all units. */
bool guard_after(precond_unit *unit, double c, double largest);

/* Computes the bounds of every unit and, where one is outside, balances the krons and computes them again. Units that
 * are still outside are rescaled or reset; returns how many. */
int guard_settle(psgd_precond *self);

#endif
