/* What a matrix Lie group must provide, and how the library calls it.
 *
 * The interface validates every argument before it comes here, so ops trust theirs. Ops never allocate. X is a view of
 * n-long fibres, so a composite hands its children slices of it and nothing is copied. R, an element of the Lie
 * algebra, lives in the caller's workspace: r_size values, laid out as the group likes.
 *
 * group_ops holds the plain ops; they alone define what a group does. group_fused holds optional fast paths, each equal
 * to plain ops to rounding (tests/group/test_typed_fused.c compares them). */
#ifndef PSGD_GROUP_GROUP_H
#define PSGD_GROUP_GROUP_H

#include <stdbool.h>

#include "core/rng.h"
#include "core/status.h"
#include "core/workspace.h"
#include "group/registry.h"
#include "group/spec.h"
#include "la/view.h"

#define group_ops   PSGD_TYPED(group_ops)
#define group       PSGD_TYPED(group)
#define group_args  PSGD_TYPED(group_args)
#define group_pair  PSGD_TYPED(group_pair)
#define group_unit  PSGD_TYPED(group_unit)
#define group_raw   PSGD_TYPED(group_raw)
#define group_r     PSGD_TYPED(group_r)
#define group_fused PSGD_TYPED(group_fused)
#define group_fit   PSGD_TYPED(group_fit)

typedef struct group group;
typedef struct group_ops group_ops;
typedef struct group_fused group_fused;

typedef struct group_args {
    const psgd_context *context;
    const spec *spec;  /* sizes and arguments of this node and those below */
    int64_t fibres;    /* n-long fibres in one tensor */
    int64_t pairs;     /* tensors that one update sums over */
    bool integrate;    /* gram and energy will be called: v is integrated out */
    bool inverse_free; /* updates need no Q^-1: a group that would keep it computes it when asked */
    int64_t extra;     /* columns that the gram of an enclosing block projects onto this part, or 0 */
    bool transposed;   /* the group of the transposes is meant */
    workspace *work;   /* reserve scratch here while creating */
    bool dry;          /* only to be described: no arrays */
    const bool *here;  /* [tiles] those of a root tiles that this process holds, others are identity; NULL: all */
} group_args;

/* Base of every group: a diag * is a group *. */
struct group {
    const group_ops *ops;
    const group_fused *fused; /* that of ops unless create chose another; NULL: there is none */
    const psgd_context *context;
    int64_t n, fibres, pairs;
    bool transposed; /* the group of the transposes; false where that is the group itself or its parts are transposed */
    bool integrate, inverse_free;
    int64_t extra; /* columns that gram projects: those of the whole block where this is a part of one */
    workspace *work;
    int64_t mix;         /* max number of entries in a row of R: bounds how much a step can make entries grow */
    int64_t sums, panel; /* in the workspace: see psgd__group_reserve_sums; for the defaults of gram and energy */
    int child_count;
    group **child; /* owned; NULL for a leaf */
    real *q;       /* what makes up Q, from psgd__group_q; NULL where that is no single array */
    int64_t q_size;
    void *owned[3];             /* arrays from psgd__group_array */
    int64_t bytes, total_bytes; /* in them; in those of the children too */
};

/* The matrices M of which an image Mv is a column. E[Mv(Mv)'] = MM' is what v integrated out leaves. QP is asked of a
 * self-adjoint group only. */
typedef enum group_image { IMAGE_INVERSE, IMAGE_IDENTITY, IMAGE_Q, IMAGE_P, IMAGE_QP, IMAGE_COUNT } group_image;

/* What one update knows about the fibres of a group. Empty views (x = NULL) count as zero. */
typedef struct group_pair {
    view A, B;   /* the images of h and v: Q h and Q^-T v, the whitened pair, or those of another update rule */
    view h, v;   /* as given */
    bool scaled; /* A or B have been multiplied by a power of two since the group computed them */
    double gram[IMAGE_COUNT]; /* for each M, add this times Pi(MM'): what v integrated out leaves */
} group_pair;

typedef psgd_status (*group_unit)(group *unit, const group_pair *pair, void *data);

typedef struct group_cost {
    double update_flops, update_bytes, apply_flops, apply_bytes;
    double shared_flops; /* of these, those of products that free threads take part in: la_parallel */
} group_cost;

/* Pairs that a family's own update may sum over. */
enum { FIT_MAX_PAIRS = 64 };

/* A part of a family's own update, which is normalised on its own, as normalisers see it. */
typedef enum group_size { SIZE_LARGEST, SIZE_SPECTRAL, SIZE_SECOND } group_size;
typedef struct group_part {
    double (*size)(void *data, group_size which); /* max |R|; ||R||_2 or a bound of it; the same of Pi(AA' + BB') */
    void *data;
    int index; /* below GROUP_MAX_PARTS */
} group_part;

/* What a family's own update asks the preconditioner, and what it reports. */
typedef struct group_fit {
    double (*step)(void *data, const group_part *part); /* c of a retraction by cR, R as it is stored */
    void *data;
    bool plain;  /* c is not divided by the size of R: a part for which it is too large takes a smaller one */
    bool moved;  /* a part had a gradient that is not zero */
    int skipped; /* parts that would have left the family and kept their values */
} group_fit;

/* How Q acts on X: bit 0 transposes, bit 1 inverts. */
typedef enum group_act { ACT_MUL, ACT_MUL_T, ACT_SOLVE, ACT_SOLVE_T } group_act;

static inline bool act_transposed(group_act act)
{
    return act & 1;
}

static inline bool act_inverse(group_act act)
{
    return act & 2;
}

/* An array that is part of the group's state. */
typedef void (*group_state)(void *data, real *x, int64_t count);

struct group_ops {
    group_kind kind;
    const group_fused *fused; /* OPTIONAL, see below */

    psgd_status (*create)(const group_args *args, group **created); /* NULL for names that never stand for themselves */

    /* REQUIRED */
    void (*reset)(group *self, double scale);              /* Q <- scale I; entries that the group fixes stay fixed */
    void (*act)(const group *self, group_act act, view X); /* X <- Q X, Q'X, Q^-1 X or Q^-T X */
    int64_t (*size)(const group *self); /* free parameters by definition of the group, children included */
    void (*cost)(const group *self, group_cost *cost); /* adds its own share, children included */

    /* REQUIRED unless units is given and the group never stands inside a block */
    int64_t (*r_size)(const group *self);
    /* R <- Pi(AA' + sign BB'), added to what R holds if accumulate. B may be empty. */
    void (*project)(const group *self, view A, view B, int sign, bool accumulate, real *R);
    real (*r_max)(const group *self, const real *R);                         /* max |R| */
    real (*r_spectral)(const group *self, const real *R);                    /* ||R||_2 or an upper bound of it */
    void (*r_mul)(const group *self, const real *R, bool transpose, view X); /* X <- R X or R'X */
    /* Adds the sums of |R| along rows [n] and columns [n] and of R^2: what psgd__r_spectral needs. */
    void (*r_sums)(const group *self, const real *R, double *rows, double *columns, double *squares);
    bool (*inside)(const group *self, real c, const real *R); /* I - c R is in the group */
    /* Q <- (I - c R) Q after inside. R is destroyed unless the group is inverse_free. */
    void (*retract)(group *self, real c, real *R);

    /* REQUIRED of a family that is not a group, in place of project .. retract: its own update from A and B. It keeps
     * the family finite. r_size is 0. */
    void (*fit)(group *self, const group_pair *pair, group_fit *how);

    /* OPTIONAL */
    /* Every array that makes up Q, children not included. NULL: q alone. */
    void (*state)(group *self, group_state visit, void *data);
    /* The values that make up Q as psgd_precond_elements has them, children not included. NULL: the arrays of state. */
    void (*elements)(const group *self, group_state visit, void *data);
    /* Q <- c Q. NULL where that would leave the group, as it does where a child has none. */
    void (*rescale)(group *self, real c);
    /* Calls visit for each part that is normalised on its own. NULL: the group itself is one such unit. */
    psgd_status (*units)(group *self, const group_pair *pair, group_unit visit, void *data);
    /* R <- R + weight Pi(MM'), and ||M||_F^2, in closed form. NULL: Q is applied to the columns of I. */
    void (*gram)(const group *self, group_image M, double weight, real *R);
    double (*energy)(const group *self, group_image M);
    /* About ||R||_2 for R >= 0, from below. NULL: r_spectral is exact, or no better is known. */
    double (*r_norm)(const group *self, const real *R, const rng_stream *draw);
    /* The sum of squares over the rows of X in which Q is I whatever the element: the diagonal entries that Pi drops.
     * NULL: there are none. */
    double (*fixed)(const group *self, view X);
    /* max |Q|. NULL: the max over state. */
    real (*largest)(const group *self);
    /* Smallest and largest singular value of Q in closed form. */
    void (*range)(const group *self, double *smallest, double *largest);

    /* OPTIONAL, for a self-adjoint kind: what update rules other than the paper's need. Called where inverse_free. */
    void (*retract_right)(group *self, real c, real *R); /* Q <- Q (I - c R). NULL: the group is commutative */
    void (*symmetrise)(group *self);                     /* Q <- (Q + Q')/2. NULL: every Q is symmetric */
    /* Returns about ||Q' - Q||_2, or 0 where Q is symmetric to rounding. With S = (Q' - Q) over that norm, x <- tr SQ
     * and y <- tr SSQ. NULL: every Q is symmetric. */
    double (*skew_part)(const group *self, const rng_stream *draw, double *x, double *y);
    /* Q <- Q + t (SQ + (t/2) SSQ), straight after skew_part returned norm > 0. */
    void (*rotate)(group *self, double norm, double t);
};

/* One pair as given: A = Q(h + damping v), B = Q^-T v. */
typedef struct group_raw {
    const real *h, *v; /* the whole tensor */
    real damping;
    int sign; /* of BB' */
} group_raw;

/* The R of one unit, and its norms. */
typedef struct group_r {
    real *R;
    double largest, spectral; /* max |R|; ||R||_2 or a bound of it, infinity where that is not known */
} group_r;

/* What a bordered diagonal matrix has besides its diagonal: c above or left of the last diagonal entry. */
typedef enum group_border { BORDER_NONE, BORDER_COLUMN, BORDER_ROW } group_border;

/* Fused fast paths. Each is OPTIONAL and does what the plain ops named with it do, in fewer passes over memory. */
struct group_fused {
    /* A <- Q A and B <- Q^-T B (ACT_MUL, ACT_SOLVE_T). A and B are views of the same shape. */
    void (*whiten)(const group *self, view A, view B);
    /* X <- Q'Q X (ACT_MUL, ACT_MUL_T). */
    void (*square)(const group *self, view X);

    /* R <- Pi(AA' - BB') and S <- Pi(AA' + BB') (two calls of project). */
    void (*project_both)(const group *self, view A, view B, real *R, real *S);
    /* Q <- (I - c R) Q (I - c R) for a symmetric Q, which stays symmetric (retract, retract_right, symmetrise). */
    void (*retract_both)(group *self, real c, real *R);

    /* For a group that acts on a whole tensor. */
    /* y <- Q'Q x (ACT_MUL, ACT_MUL_T); x may be y. */
    void (*apply)(const group *self, const real *x, real *y);
    /* The R of every unit straight from (v, h), one after the other in R, without storing A and B (act, units,
     * project). units is in the order in which units() visits them. Squares may overflow: the caller checks largest. */
    void (*project)(const group *self, const group_raw *raw, real *R, group_r *units);

    /* For diagonal groups, kind.diagonal: Q <- (I - step sign R) Q, entry by entry (units, project, the normaliser
     * entry and retract); see la_diag_entries for vanishing. */
    void (*entries)(group *self, const group_raw *raw, double step, double vanishing);

    /* For bordered diagonal groups, Q = [diag(d) c; 0 s] or its transpose. A kron of two such projects and applies. */
    /* diagonal [n] <- (d, s) and side [n - 1] <- c; with NULL it only returns which border there is. */
    group_border (*border)(const group *self, real *diagonal, real *side);
    /* R <- Pi(S) from the diagonal of S and the entries of S along the border (project). */
    void (*border_project)(const group *self, const double *diagonal, const double *side, real *R);
};

/* The table of a built-in group. */
#define GROUP_OPS(name)         PSGD_TYPED(psgd__##name##_ops)
#define GROUP_OPS_DECLARE(name) extern const group_ops GROUP_OPS(name);
BUILTIN_GROUPS(GROUP_OPS_DECLARE)

#define psgd__group_create        PSGD_TYPED(psgd__group_create)
#define psgd__group_parts         PSGD_TYPED(psgd__group_parts)
#define psgd__group_part          PSGD_TYPED(psgd__group_part)
#define psgd__group_base          PSGD_TYPED(psgd__group_base)
#define psgd__group_array         PSGD_TYPED(psgd__group_array)
#define psgd__group_reals         PSGD_TYPED(psgd__group_reals)
#define psgd__group_free          PSGD_TYPED(psgd__group_free)
#define psgd__group_units         PSGD_TYPED(psgd__group_units)
#define psgd__group_whiten        PSGD_TYPED(psgd__group_whiten)
#define psgd__group_square        PSGD_TYPED(psgd__group_square)
#define psgd__group_can_rescale   PSGD_TYPED(psgd__group_can_rescale)
#define psgd__group_gram          PSGD_TYPED(psgd__group_gram)
#define psgd__group_energy        PSGD_TYPED(psgd__group_energy)
#define psgd__gram_by_columns     PSGD_TYPED(psgd__gram_by_columns)
#define psgd__energy_by_columns   PSGD_TYPED(psgd__energy_by_columns)
#define psgd__group_reserve_panel PSGD_TYPED(psgd__group_reserve_panel)
#define psgd__group_fixed         PSGD_TYPED(psgd__group_fixed)
#define psgd__group_fixed_gram    PSGD_TYPED(psgd__group_fixed_gram)
#define psgd__parts_fixed         PSGD_TYPED(psgd__parts_fixed)
#define psgd__group_project_both  PSGD_TYPED(psgd__group_project_both)
#define psgd__group_norm          PSGD_TYPED(psgd__group_norm)
#define psgd__group_retract_right PSGD_TYPED(psgd__group_retract_right)
#define psgd__group_retract_both  PSGD_TYPED(psgd__group_retract_both)
#define psgd__group_symmetrise    PSGD_TYPED(psgd__group_symmetrise)
#define psgd__group_rotate        PSGD_TYPED(psgd__group_rotate)
#define psgd__group_range         PSGD_TYPED(psgd__group_range)
#define psgd__group_largest       PSGD_TYPED(psgd__group_largest)
#define psgd__group_visit         PSGD_TYPED(psgd__group_visit)
#define psgd__group_to_dense      PSGD_TYPED(psgd__group_to_dense)
#define psgd__group_elements      PSGD_TYPED(psgd__group_elements)
#define psgd__group_balance       PSGD_TYPED(psgd__group_balance)
#define psgd__r_spectral          PSGD_TYPED(psgd__r_spectral)
#define psgd__group_reserve_sums  PSGD_TYPED(psgd__group_reserve_sums)
#define psgd__group_q             PSGD_TYPED(psgd__group_q)
#define psgd__group_state         PSGD_TYPED(psgd__group_state)
#define psgd__group_size          PSGD_TYPED(psgd__group_size)
#define psgd__group_no_size       PSGD_TYPED(psgd__group_no_size)
#define psgd__group_r_size        PSGD_TYPED(psgd__group_r_size)
#define psgd__group_r_max         PSGD_TYPED(psgd__group_r_max)
#define psgd__group_reset         PSGD_TYPED(psgd__group_reset)
#define psgd__group_rescale       PSGD_TYPED(psgd__group_rescale)
#define psgd__parts_cost          PSGD_TYPED(psgd__parts_cost)
#define psgd__fit_supports        PSGD_TYPED(psgd__fit_supports)
#define psgd__group_ops_at        PSGD_TYPED(psgd__group_ops_at)

const group_ops *psgd__group_ops_at(const psgd_context *context, int index); /* as psgd__group_kind_at */

/* Builds the group of a fitted spec. The caller calls ops->reset before use. */
psgd_status psgd__group_create(const group_args *args, const spec_tree *tree, group **created);
void psgd__group_free(group *self);

/* For composites: a child for each child of the spec. extra is theirs. On failure the group is freed. */
psgd_status psgd__group_parts(const group_args *args, group *self, int64_t extra);

/* One of them. */
psgd_status psgd__group_part(const group_args *args, group **created);

/* Allocates a group whose struct starts with the base and fills that in; NULL after psgd__fail. */
void *psgd__group_base(const group_args *args, const group_ops *ops, size_t bytes);

/* An array for the group, freed with it. On failure the group is freed. In a dry run *array is NULL. */
psgd_status psgd__group_array(const group_args *args, void *self, int64_t count, size_t size, void *array);
psgd_status psgd__group_reals(const group_args *args, void *self, int64_t count, real **array);
psgd_status psgd__group_q(const group_args *args, group *self, int64_t count); /* allocates q */

psgd_status psgd__group_units(group *self, const group_pair *pair, group_unit visit, void *data);
void psgd__group_whiten(const group *self, view A, view B); /* A <- QA, B <- Q^-T B: fused where it can be */
void psgd__group_square(const group *self, view X);         /* X <- Q'Q X: likewise */
bool psgd__group_can_rescale(const group *self);
void psgd__group_gram(const group *self, group_image M, double weight, real *R);
double psgd__group_energy(const group *self, group_image M);
/* The same by columns of I, whatever ops the group has; it reserves its panel in create. */
void psgd__gram_by_columns(const group *self, group_image M, double weight, real *R);
double psgd__energy_by_columns(const group *self, group_image M);
void psgd__group_reserve_panel(group *self);
double psgd__group_fixed(const group *self, view X);             /* op fixed; 0 for an empty view */
double psgd__group_fixed_gram(const group *self, group_image M); /* the same of X = M */
psgd_status psgd__group_range(const group *self, double *smallest, double *largest);
real psgd__group_largest(const group *self);                                 /* max |entry| of what makes up Q */
void psgd__group_state(group *self, group_state visit, void *data);          /* op state or its default */
void psgd__group_visit(group *self, group_state visit, void *data);          /* the same, children included */
void psgd__group_to_dense(const group *self, real *Q);                       /* n x n, row-major */
void psgd__group_elements(const group *self, group_state visit, void *data); /* op elements, children included */
void psgd__group_balance(group *self, bool exactly);                         /* kron: see kron.c */

/* Ops of one unit with their defaults. */
void psgd__group_project_both(const group *self, view A, view B, real *R, real *S);
double psgd__group_norm(const group *self, const real *R, const rng_stream *draw); /* r_norm or r_spectral */
void psgd__group_retract_right(group *self, real c, real *R);
void psgd__group_retract_both(group *self, real c, real *R);
void psgd__group_symmetrise(group *self);
/* One rotation towards symmetric Q: t maximises tr (I + tS + t^2/2 SS) Q, up to 1/8. */
void psgd__group_rotate(group *self, const rng_stream *draw);

/* Max number of fibres that one R of this group sums over. */
static inline int64_t group_columns(const group *self)
{
    return self->fibres * self->pairs + self->extra;
}

/* r_spectral by default: min(||R||_F, sqrt(||R||_1 ||R||_inf)) from r_sums. Such a group reserves room in create. */
real psgd__r_spectral(const group *self, const real *R);
void psgd__group_reserve_sums(group *self);

/* Ops that several groups share. */
void psgd__group_reset(group *self, double scale);        /* where the first n entries of q are the diagonal */
int64_t psgd__group_size(const group *self);              /* that of q and of the children */
int64_t psgd__group_no_size(const group *self);           /* 0 */
int64_t psgd__group_r_size(const group *self);            /* where R is as large as q, after the R of the children */
real psgd__group_r_max(const group *self, const real *R); /* where R is as large as q */
void psgd__group_rescale(group *self, real c);            /* q and the children */
void psgd__parts_cost(const group *self, group_cost *cost);
double psgd__parts_fixed(const group *self, view X); /* parts one after the other along the fibre */

/* Refuses what a family's own update cannot do. */
psgd_status psgd__fit_supports(const group_args *args);

enum { FIT_ROUNDING = 64 }; /* a family leaves alone what is so many epsilons of the terms that cancelled */

/* The turn that a family keeps among its values, from 0 to count - 1: a loaded state may hold anything there. */
static inline int fit_turn(real kept, int count)
{
    return kept >= 0 && kept < (real)count ? (int)kept : 0;
}

#endif
