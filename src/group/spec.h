/* A spec as a tree, still without sizes; and the same with the sizes of a shape worked out. */
#ifndef PSGD_GROUP_SPEC_H
#define PSGD_GROUP_SPEC_H

#include <stdint.h>

#include "core/status.h"
#include "group/registry.h"
#include <psgd/context.h>
#include <psgd/dtype.h>

enum { SPEC_MAX_DEPTH = 64, SPEC_MAX_DIMS = 32, SPEC_MAX_KRONS = 4, SPEC_MAX_TILES = 1 << 16 };

typedef struct spec {
    const group_kind *kind;
    int kind_index;        /* for psgd__group_ops_at */
    int column;            /* where it stands in the text, from 1: for messages */
    int64_t size;          /* as written, or -1 */
    int64_t n;             /* as worked out by psgd__spec_fit */
    double number;         /* the argument of kinds that take one */
    int64_t down, across;  /* tiles: how many rows and columns of them; children are the group of a larger and a smaller
                              tile: [larger, smaller rows][larger, smaller columns] */
    int64_t rows, columns; /* tiles: of the matrix */
    int child_count;
    struct spec *first, *next; /* children; the next sibling */
} spec;

typedef struct spec_tree {
    const psgd_context *context;
    spec *root;
    spec *nodes; /* all of them, one block */
    int count, room;
    char *text; /* as given or, where that was auto, as chosen; only from psgd__spec_read */
} spec_tree;

bool psgd__spec_is_auto(const char *source); /* the planner is to choose */
psgd_status psgd__spec_parse(const psgd_context *context, const char *source, spec_tree *tree);
void psgd__spec_free(spec_tree *tree);

/* Gives every node its size for a tensor of this shape, or says which part does not fit. */
psgd_status psgd__spec_fit(spec_tree *tree, int ndim, const int64_t *shape);

/* Both, with "auto" replaced by what the planner chooses for this tensor alone. On failure tree needs no freeing. */
psgd_status psgd__spec_read(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                            psgd_dtype dtype, spec_tree *tree);

#endif
