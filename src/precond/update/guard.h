/* Keeps Q within numbers that can be squared: see guard.c. */
#ifndef PSGD_PRECOND_UPDATE_GUARD_H
#define PSGD_PRECOND_UPDATE_GUARD_H

#include "group/group.h"

#define guard_start  PSGD_TYPED(psgd__guard_start)
#define guard_after  PSGD_TYPED(psgd__guard_after)
#define guard_settle PSGD_TYPED(psgd__guard_settle)

/* The bounds of every group in the tree are unknown again. */
void guard_start(group *root);

/* After a step of size c with max |R| = largest. true where the bounds have reached a limit: the caller then calls
 * guard_settle when all units have made their step. */
bool guard_after(group *unit, double c, double largest);

/* Looks at every unit and, where one is outside, balances the krons and looks again. Returns how many had to be brought
 * back. */
int guard_settle(group *root, double init_scale);

#endif
