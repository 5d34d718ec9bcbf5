/* What a preconditioner asks of the group of its tiles. */
#ifndef PSGD_GROUP_COMPOSITE_TILES_H
#define PSGD_GROUP_COMPOSITE_TILES_H

#include "group/group.h"
#include "group/tiles.h"

#define psgd__tiles_grid PSGD_TYPED(psgd__tiles_grid)
#define psgd__tiles_spec PSGD_TYPED(psgd__tiles_spec)

const tile_grid *psgd__tiles_grid(const group *self); /* NULL: it is another group. Child k acts on tile k */

/* The spec of a tile of this size, below the node of a fitted tiles. */
const spec *psgd__tiles_spec(const spec *node, tile_place t);

#endif
