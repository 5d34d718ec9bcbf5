/* Keeps Q within numbers that can be squared: see guard.c. */
#ifndef PSGD_PRECOND_GUARD_H
#define PSGD_PRECOND_GUARD_H

#include "group/group.h"

#define guard_start PSGD_TYPED(psgd__guard_start)
#define guard_after PSGD_TYPED(psgd__guard_after)

/* The bounds of every group in the tree are unknown again. */
void guard_start(group *root);

/* After a step of size c with max |R| = largest. true where Q had to be brought back. */
bool guard_after(group *unit, double c, double largest, double init_scale);

#endif
