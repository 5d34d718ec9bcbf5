/* What the parser, the help and the tree need to know about a group, whatever the number type. */
#ifndef PSGD_GROUP_KIND_H
#define PSGD_GROUP_KIND_H

#include <stdbool.h>

/* Where a group may stand in a spec. */
typedef enum group_place {
    PLACE_ANYWHERE,
    PLACE_TENSOR, /* it acts on several modes at once: at the root, under t, as a part of a sum */
    PLACE_VECTOR  /* a family that is not a group: at the root or as a part of a sum */
} group_place;

/* How the sizes of the children follow from the size of the whole. */
typedef enum group_sizes {
    SIZES_NONE,    /* no children */
    SIZES_SAME,    /* one child of the same size */
    SIZES_ADD,     /* the sizes of the children add up */
    SIZES_MULTIPLY /* the sizes of the children multiply: one per mode */
} group_sizes;

typedef struct group_kind {
    const char *name;    /* as written in a spec */
    const char *summary; /* one line for psgd group --list */
    const char *formula; /* numbers stored for size n, as a formula for people */
    const char *alias;   /* the spec that this name stands for, or NULL */
    int min_children, max_children;
    bool takes_number; /* one number as its argument: lra(10) */
    bool unprotected;  /* the max normaliser does not keep it invertible */
    group_place place;
    group_sizes sizes;
    bool holds_tensors; /* its parts may be groups that act on several modes */
} group_kind;

#endif
