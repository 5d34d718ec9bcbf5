/* The groups that a spec may name: the built-in ones, then the caller's own. */
#ifndef PSGD_GROUP_REGISTRY_H
#define PSGD_GROUP_REGISTRY_H

#include <stdbool.h>

#include <psgd/context.h>
#include <psgd/dtype.h>
#include <psgd/user_group.h>

/* The built-in groups, in the order of psgd group --list. To add one: its name here, and a file that defines the table
 * GROUP_OPS(name) (see group.h). */
#define BUILTIN_GROUPS(GROUP)                                                                                          \
    GROUP(identity)                                                                                                    \
    GROUP(scale)                                                                                                       \
    GROUP(diag)                                                                                                        \
    GROUP(tri)                                                                                                         \
    GROUP(tril)                                                                                                        \
    GROUP(dense)                                                                                                       \
    GROUP(norm)                                                                                                        \
    GROUP(bnorm)                                                                                                       \
    GROUP(xmat)                                                                                                        \
    GROUP(t)                                                                                                           \
    GROUP(block)                                                                                                       \
    GROUP(sum)                                                                                                         \
    GROUP(kron)                                                                                                        \
    GROUP(tiles)                                                                                                       \
    GROUP(scan)                                                                                                        \
    GROUP(scaw)                                                                                                        \
    GROUP(lra)                                                                                                         \
    GROUP(splu)

#define BUILTIN_COUNT_ONE(name) +1
enum { BUILTIN_COUNT = BUILTIN_GROUPS(BUILTIN_COUNT_ONE) };

/* Parts of a family's own update that are normalised on their own. */
enum { GROUP_MAX_PARTS = 3 };

/* Where a group may stand in a spec. */
typedef enum group_place {
    PLACE_ANYWHERE,
    PLACE_TENSOR, /* it acts on several modes at once: at the root, under t, as a part of a sum */
    PLACE_VECTOR, /* a family that is not a group: at the root or as a part of a sum */
    PLACE_MATRIX  /* it needs the shape of a matrix: at the root, under t */
} group_place;

/* How the sizes of the children follow from the size of the whole. */
typedef enum group_sizes {
    SIZES_NONE,     /* no children */
    SIZES_SAME,     /* one child of the same size */
    SIZES_ADD,      /* the sizes of the children add up */
    SIZES_MULTIPLY, /* the sizes of the children multiply: one per mode */
    SIZES_TILES     /* each child acts on a tile of a matrix */
} group_sizes;

/* What the parser, the help and the tree need to know about a group, whatever the dtype. */
typedef struct group_kind {
    const char *name;    /* as written in a spec */
    const char *summary; /* one line for psgd group --list */
    const char *formula; /* values stored for size n, as a formula for people */
    const char *alias;   /* the spec that this name stands for, or NULL */
    int min_children, max_children;
    bool takes_number; /* one number as its argument: lra(10) */
    bool unprotected;  /* the max normaliser does not keep it invertible */
    group_place place;
    group_sizes sizes;
    bool holds_tensors; /* its parts may be groups that act on several modes */
    bool triangular;    /* all upper triangular matrices with positive diagonal */
    bool
        self_adjoint; /* its algebra is closed under products and transposition; of a composite: where its parts' are */
    bool diagonal;    /* Q = diag(q) with one free entry a row, and q [n] is its only state */
} group_kind;

/* An index below BUILTIN_COUNT is a built-in group. */
int psgd__group_kind_count(const psgd_context *context);
const group_kind *psgd__group_kind_at(const psgd_context *context, int index);
const group_kind *psgd__builtin_kind_f32(int index);
const group_kind *psgd__builtin_kind_f64(int index);

/* A group of the caller's own, in a list that hangs on the context. */
typedef struct user_entry {
    struct user_entry *next;
    char *name, *summary, *formula; /* owned */
    group_kind kind;
    psgd_user_group table[2]; /* by psgd_dtype; bytes = 0: there is none for this dtype */
    void *ops[2];             /* the group_ops of that dtype */
} user_entry;

const user_entry *psgd__user_at(const psgd_context *context, int index); /* from 0 */

/* The library's ops over a caller's table: the size of a group_ops, and one filled in there. */
int64_t psgd__user_ops_bytes_f32(void);
int64_t psgd__user_ops_bytes_f64(void);
void psgd__user_ops_fill_f32(void *ops, const user_entry *entry);
void psgd__user_ops_fill_f64(void *ops, const user_entry *entry);

#endif
