/* A preconditioner of tiles(G,a,b): one of G for each tile, which shares nothing with the others but the workspace. The
 * start of Q, skipped updates and the guard against overflow are those of each tile, so that a tile is fitted the same
 * way whichever process holds it. */
#ifndef PSGD_PRECOND_UPDATE_TILES_H
#define PSGD_PRECOND_UPDATE_TILES_H

#include "group/group.h"
#include "precond/precond.h"

#define precond_complete  PSGD_TYPED(psgd__precond_complete)
#define tiles_build       PSGD_TYPED(psgd__tiles_build)
#define tiles_update      PSGD_TYPED(psgd__tiles_update)
#define tiles_criterion   PSGD_TYPED(psgd__tiles_criterion)
#define tiles_state_bytes PSGD_TYPED(psgd__tiles_state_bytes)
#define tiles_state_save  PSGD_TYPED(psgd__tiles_state_save)
#define tiles_state_load  PSGD_TYPED(psgd__tiles_state_load)

psgd_status precond_complete(psgd_precond *self); /* state.c: all that a fit needs besides root */

psgd_status tiles_build(psgd_precond *self, const spec_tree *tree, const group_args *args);

/* A tile whose pair cannot be used stays as it was, and is counted as skipped; an error where no tile could. */
psgd_status tiles_update(psgd_precond *self, int64_t count, const real *v, const real *h);
psgd_status tiles_criterion(psgd_precond *self, const real *v, const real *h, double *value);

/* A header and the states of all tiles. Those that are not here are left as they are in bytes, and are not read. */
int64_t tiles_state_bytes(const psgd_precond *self);
void tiles_state_save(const psgd_precond *self, char *bytes);
psgd_status tiles_state_load(psgd_precond *self, int64_t count, const char *bytes);

#endif
