/* The preconditioner, and the typed half of its work.
 *
 * An update has four independent choices: the group, the criterion (which pair (v, h)), the update rule (rule.c) and
 * the normaliser (normaliser.c). */
#ifndef PSGD_PRECOND_PRECOND_H
#define PSGD_PRECOND_PRECOND_H

#include <stdbool.h>

#include "core/dtype.h"
#include "core/options.h"
#include "core/workspace.h"
#include "group/spec.h"
#include <psgd/precond.h>

typedef enum criterion { CRITERION_NEWTON, CRITERION_FISHER } criterion;
typedef enum norm_choice { NORM_AUTO, NORM_MAX, NORM_ENTRY, NORM_SPECTRAL, NORM_SECOND, NORM_NONE } norm_choice;
typedef enum rule_choice { RULE_AUTO, RULE_EQ, RULE_QEQ, RULE_PRO, RULE_QUAD, RULE_QEP } rule_choice;
typedef enum init_choice { INIT_SCALE, INIT_FIRST } init_choice;
typedef enum rows_choice { ROWS_NONE, ROWS_EXACT, ROWS_LAZY } rows_choice;

enum { START_PAIRS = 5 }; /* that init first starts from */

typedef struct precond_settings {
    int criterion; /* enum criterion */
    int norm;      /* enum norm_choice */
    int rule;      /* enum rule_choice */
    int init;      /* enum init_choice */
    int rows;      /* enum rows_choice */
    double damping, step, norm_decay, init_scale, average;
    int64_t pairs, batch;
    bool integrate, unbiased;
    const bool *here; /* only while creating, of a root tiles: see group_args */
} precond_settings;

extern const option_row psgd__precond_options[];
extern const int psgd__precond_option_count;

/* An update rule: the images A and B that R = Pi(AA' - BB') is made of, the side from which I - cR multiplies Q, and
 * what follows. */
typedef enum rule_images {
    IMAGES_WHITENED, /* Qh, Q^-T v */
    IMAGES_APPLIED,  /* Ph, v */
    IMAGES_OWN       /* Q_i Ph, Q_i v, Q_i the factor itself */
} rule_images;
typedef enum rule_side { SIDE_LEFT, SIDE_RIGHT, SIDE_BOTH } rule_side; /* both: by half of cR each; Q stays symmetric */

typedef struct update_rule {
    const char *name;
    rule_images images;
    rule_side side;
    bool rotate;  /* Q towards a symmetric one */
    bool balance; /* the factors of a kron after every update: ||R|| depends on their scales */
} update_rule;

const update_rule *psgd__rule_at(int choice); /* a resolved rule_choice */

/* Replaces auto of rule and norm by what fits the group; refuses a rule that does not. */
psgd_status psgd__rule_resolve(const spec_tree *tree, precond_settings *settings);

/* Whether updates do without Q^-1. */
static inline bool psgd__rule_is_inverse_free(const update_rule *rule)
{
    return rule->images != IMAGES_WHITENED;
}

/* The tensors that a joint preconditioner's vector is made of; count is 0 for any other. */
typedef struct precond_segments {
    int count;
    int64_t *sizes;     /* owned */
    int64_t at_v, at_h; /* in the workspace: gathered vectors, [pairs][n] */
} precond_segments;

/* What is remembered about one unit, a part of Q that is normalised on its own. */
typedef struct precond_unit {
    void *group;                     /* of the dtype */
    double running[GROUP_MAX_PARTS]; /* running maxima of the normaliser "second", 0 before its first use: one for a
                                        group, one for each part of a family */
    double top, bottom;              /* bounds of log2 of the largest entry, see guard.c */
    int norm;                        /* enum norm_choice, never NORM_AUTO */
    int share;                       /* factors of the krons above that can grow together: their product stays finite */
} precond_unit;

struct psgd_precond {
    const psgd_context *context;
    psgd_dtype dtype;
    precond_settings settings;
    char *spec;           /* owned */
    int64_t n;            /* elements of the tensor */
    workspace own, *work; /* work is own, or the optimizer's */
    int64_t at_A, at_B, at_R;
    int64_t at_own;      /* copies of A and B, where the rule takes images of a unit's own */
    int64_t work_bytes;  /* reserved in work */
    double shared_flops; /* of one update and one apply, in products that free threads take part in */
    void *root;          /* the group, of the dtype */
    precond_unit *units; /* owned, in the order in which psgd__group_units visits them */
    int unit_count;
    int64_t r_size;  /* values that one R may take in the workspace */
    void *average;   /* s, the moving average of the gradient, where unbiased */
    int64_t waiting; /* first pairs that Q is still to start from, see update/start.c */
    double start;    /* the multiple of I that it has started from so far */
    bool by_entry;   /* norm was auto: a diag at the root or in a sum is normalised entry by entry */
    bool vouched;    /* an optimizer has checked that pairs are finite */
    int64_t updates, skipped;
    precond_segments segments;
    bool is_tile;                /* root belongs to another preconditioner */
    int tile_count;              /* of a root tiles: update/tiles.c; units are theirs */
    struct psgd_precond **tiles; /* owned; NULL where another process holds the tile */
    int64_t *tile_bytes;         /* owned: of the state of each, wherever it is */
    int64_t at_tile;             /* in the workspace: v and h of one tile */
};

/* Checks the dtype and reads the options; NULL: defaults. */
psgd_status psgd__precond_read(psgd_dtype dtype, const psgd_options *options, precond_settings *settings);

/* In a workspace that others share: its owner commits it when all are created. NULL: a workspace of its own. segments,
 * for tensors as one vector (<psgd/joint.h>), may be NULL; its sizes are freed here, also on failure. */
psgd_status psgd__precond_create(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                                 psgd_dtype dtype, const precond_settings *settings, workspace *shared,
                                 const precond_segments *segments, psgd_precond **precond);

/* So small that one thread does it best, in a workspace that has room for several such. */
bool psgd__precond_concurrent(const psgd_precond *self);
bool psgd__precond_is_heavy(const psgd_precond *self); /* but its products are worth several threads */

/* Where the state of a tile starts in that of all of them. */
enum { TILES_HEADER = 64 };
int64_t psgd__precond_tile_at(const psgd_precond *self, int tile);

/* Refuses a list of rows that is not ascending or has one outside 0 .. limit - 1. */
psgd_status psgd__rows_check(const psgd_rows *rows, int64_t limit);

#define PRECOND_TYPED(type)                                                                                            \
    psgd_status psgd__precond_build_##type(psgd_precond *self, const spec_tree *tree);                                 \
    psgd_status psgd__precond_state_check_##type(const psgd_precond *self, int64_t count, const void *bytes);          \
    void psgd__precond_release_##type(psgd_precond *self);                                                             \
    psgd_status psgd__precond_update_##type(psgd_precond *self, int64_t count, const void *v, const void *h);          \
    void psgd__precond_apply_##type(const psgd_precond *self, psgd_operator what, const void *x, void *y);             \
    psgd_status psgd__precond_check_rows_##type(const psgd_precond *self);                                             \
    psgd_status psgd__precond_update_rows_##type(psgd_precond *self, const psgd_rows *rows, const void *v,             \
                                                 const void *h);                                                       \
    void psgd__precond_apply_rows_##type(const psgd_precond *self, psgd_operator what, const psgd_rows *rows,          \
                                         const void *x, void *y);                                                      \
    psgd_status psgd__precond_criterion_##type(psgd_precond *self, const void *v, const void *h, double *value);       \
    psgd_status psgd__precond_range_##type(const psgd_precond *self, double *smallest, double *largest);               \
    psgd_status psgd__precond_factor_health_##type(const psgd_precond *self, int factor, double health[3]);            \
    int psgd__precond_factor_count_##type(const psgd_precond *self);                                                   \
    int64_t psgd__precond_factor_size_##type(const psgd_precond *self, int factor);                                    \
    void psgd__precond_factor_##type(const psgd_precond *self, int factor, void *Q);                                   \
    int64_t psgd__precond_elements_##type(const psgd_precond *self, void *to);                                         \
    void psgd__precond_reset_##type(psgd_precond *self, double scale);                                                 \
    int64_t psgd__precond_state_bytes_##type(const psgd_precond *self);                                                \
    void psgd__precond_state_save_##type(const psgd_precond *self, void *bytes);                                       \
    psgd_status psgd__precond_state_load_##type(psgd_precond *self, int64_t count, const void *bytes);                 \
    void psgd__precond_copy_##type(const psgd_precond *from, psgd_precond *to); /* its state; made alike */

PRECOND_TYPED(f32)
PRECOND_TYPED(f64)

#endif
