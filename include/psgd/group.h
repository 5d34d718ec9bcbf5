/* Group specs: the groups that can be named, and what a spec costs on a tensor of a given shape. docs/groups.md has the
 * grammar. */
#ifndef PSGD_GROUP_H
#define PSGD_GROUP_H

#include <stdint.h>

#include <psgd/context.h>
#include <psgd/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The groups that a context knows, by index from 0; NULL past the last. context may be NULL. The strings live as long
 * as the context. */
const char *psgd_group_name(const psgd_context *context, int index);
const char *psgd_group_summary(const psgd_context *context, int index);
const char *psgd_group_formula(const psgd_context *context, int index); /* elements stored, in terms of n */

/* What a group stores and costs on a tensor of this shape: elements and bytes of Q, floating-point operations and
 * memory traffic of one update and one apply. Any result may be NULL. Q itself is not allocated. */
psgd_status psgd_group_cost(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                            psgd_dtype dtype, int64_t *size, int64_t *bytes, double *update_flops, double *update_bytes,
                            double *apply_flops, double *apply_bytes);

/* The tiles of a matrix under a spec tiles(G,a,b), row by row of tiles: where each lies, bytes of its Q, floating-point
 * operations of one update and one apply. Any other spec is one tile, the whole tensor as the matrix [first, others].
 * tiles (may be NULL) receives the first room of them; *count is how many there are, which may be more. */
typedef struct psgd_tile {
    int64_t row, column, rows, columns;
    int64_t bytes;
    double update_flops, apply_flops;
} psgd_tile;

psgd_status psgd_group_tiles(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                             psgd_dtype dtype, int room, psgd_tile *tiles, int *count);

/* The spec as a tree, one line per group, with its side and the elements it stores. Free it with psgd_text_free. */
psgd_status psgd_group_tree(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                            psgd_dtype dtype, char **tree);

/* Tests the laws that a group must satisfy on random elements: closure under product and inverse, <Qx, Q^-T y> = <x,
 * y>, the projection is idempotent and orthogonal, R is the relative gradient, the retraction stays in the group, and
 * more. *broken is the number of laws that do not hold; report (may be NULL) has a line for each, with the error and
 * its tolerance. Free it with psgd_text_free. */
psgd_status psgd_group_check(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                             psgd_dtype dtype, uint64_t seed, int *broken, char **report);

/* Frees a text that a call with the same context returned. */
void psgd_text_free(const psgd_context *context, char *chars);

#ifdef __cplusplus
}
#endif
#endif
