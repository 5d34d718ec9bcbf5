/* What a matrix Lie group must provide, and how the library calls it.
 *
 * The interface validates every argument before it comes here, so ops trust theirs. Ops never allocate. X is a view of
 * n-long fibres, so a composite hands its children slices of it and nothing is copied. R, an element of the Lie
 * algebra, lives in the caller's workspace: r_numbers long, laid out as the group likes. */
#ifndef PSGD_GROUP_GROUP_H
#define PSGD_GROUP_GROUP_H

#include <stdbool.h>

#include "core/status.h"
#include "core/workspace.h"
#include "group/kind.h"
#include "group/spec.h"
#include "la/view.h"

#define group_ops   PSGD_TYPED(group_ops)
#define group       PSGD_TYPED(group)
#define group_args  PSGD_TYPED(group_args)
#define group_pair  PSGD_TYPED(group_pair)
#define group_unit  PSGD_TYPED(group_unit)
#define group_raw   PSGD_TYPED(group_raw)
#define group_fused PSGD_TYPED(group_fused)
#define group_fit   PSGD_TYPED(group_fit)

typedef struct group group;
typedef struct group_ops group_ops;

typedef struct group_args {
    const psgd_context *context;
    const spec *spec; /* sizes and arguments of this node and those below */
    int64_t fibres;   /* n-long fibres in one tensor */
    int64_t pairs;    /* tensors that one update sums over */
    bool integrate;   /* gram and energy will be called: v is integrated out */
    int64_t extra;    /* columns that the gram of an enclosing block projects onto this part, or 0 */
    bool transposed;  /* the group of the transposes is meant */
    workspace *work;  /* reserve scratch here while creating */
    bool dry;         /* only to be described: no arrays */
} group_args;

/* Base of every group: a diag * is a group *. */
struct group {
    const group_ops *ops;
    const psgd_context *context;
    int64_t n, fibres, pairs;
    bool transposed; /* the group of the transposes; false where that is the group itself, or its parts are turned */
    bool integrate;
    int64_t extra; /* columns that gram projects: those of the whole block where this is a part of one */
    workspace *work;
    int64_t mix; /* the most entries in a row of R: how much a step can make entries grow */
    int64_t sums,
        panel; /* places in the workspace: see psgd__group_reserve_sums; for the defaults of gram and energy */
    int child_count;
    group **child;              /* owned; NULL for a leaf */
    void *owned[3];             /* arrays from psgd__group_array */
    int64_t bytes, total_bytes; /* in them; in those of the children too */

    /* Kept for the preconditioner, one per normalised unit. */
    double running;     /* the running maximum of the normaliser "second", 0 before its first use */
    double top, bottom; /* bounds of log2 of the largest entry, see precond/guard.c */
    int share;          /* factors of the krons above that can grow together: their product must stay a number */
};

/* What one update knows about the fibres of a group. Empty views (x = NULL) count as zero. */
typedef struct group_pair {
    view A, B;           /* Q h and Q^-T v */
    view h, v;           /* as they came: for families with an update of their own */
    bool scaled;         /* A or B have been multiplied by a power of two since the group formed them */
    double gram;         /* add gram Pi(QQ') */
    double gram_inverse; /* add gram_inverse Pi(Q^-T Q^-1): the expectation over v where v is integrated out */
} group_pair;

/* One pair as it came, for capture: A = Q(h + damping v), B = Q^-T v. */
typedef struct group_raw {
    const real *h, *v; /* the whole tensor */
    real damping;
    int sign; /* of BB' */
} group_raw;

/* The R of one unit, and what is known of it. */
typedef struct group_fused {
    real *R;
    double largest, spectral; /* max |R|; ||R||_2 or a bound of it, or infinity where that was not looked at */
} group_fused;

/* What a matrix has beside its diagonal. */
typedef enum group_side { SIDE_NONE, SIDE_COLUMN, SIDE_ROW } group_side;

typedef psgd_status (*group_unit)(group *unit, const group_pair *pair, void *data);

typedef struct group_cost {
    double update_flops, update_bytes, apply_flops, apply_bytes;
    double shared_flops; /* of these, those of products that free threads take part in: psgd__share */
} group_cost;

/* A part of a family's own update, which is normalised on its own, as normalisers see it. */
typedef enum group_size { SIZE_LARGEST, SIZE_SPECTRAL, SIZE_SECOND } group_size;
typedef struct group_part {
    double (*size)(void *data, group_size which); /* max |R|; ||R||_2 or a bound of it; the same of Pi(AA' + BB') */
    void *data;
    double *running; /* the running maximum of the normaliser "second" */
} group_part;

/* What a family's own update asks the preconditioner, and what it tells. */
typedef struct group_fit {
    double (*step)(const void *data, const group_part *part); /* c of a retraction by cR, R as it is stored */
    const void *data;
    bool plain;  /* c is not divided by the size of R: where it is too large for it, a part takes a smaller one */
    bool moved;  /* a part had a gradient that is not zero */
    int skipped; /* parts that would have left the family, left out */
} group_fit;

/* An array of the group's own numbers. */
typedef void (*group_state)(void *data, real *x, int64_t count);

struct group_ops {
    group_kind kind;

    psgd_status (*create)(const group_args *args, group **created); /* NULL for names that never stand for themselves */

    /* REQUIRED */
    void (*reset)(group *self, double scale);   /* Q <- scale I; entries that the group fixes stay fixed */
    void (*mul)(const group *self, view X);     /* X <- Q X    */
    void (*mul_t)(const group *self, view X);   /* X <- Q' X   */
    void (*solve)(const group *self, view X);   /* X <- Q^-1 X */
    void (*solve_t)(const group *self, view X); /* X <- Q^-T X */
    int64_t (*size)(const group *self);         /* what the group has by its definition, children included */
    void (*state)(group *self, group_state visit, void *data); /* every array that makes up Q, children not included */
    void (*cost)(const group *self, group_cost *cost);         /* adds its own share, children included */

    /* REQUIRED unless units is given and the group never stands inside a block */
    int64_t (*r_size)(const group *self);
    /* R <- Pi(AA' + sign BB'), added to what R holds if accumulate. B may be empty. */
    void (*project)(const group *self, view A, view B, int sign, bool accumulate, real *R);
    real (*r_max)(const group *self, const real *R);           /* max |R| */
    real (*r_spectral)(const group *self, const real *R);      /* ||R||_2 or an upper bound of it */
    void (*r_mul)(const group *self, const real *R, view X);   /* X <- R X  */
    void (*r_mul_t)(const group *self, const real *R, view X); /* X <- R' X */
    void (*r_sums)(const group *self, const real *R, double *rows, double *columns,
                   double *squares);                          /* see r_sums below */
    bool (*inside)(const group *self, real c, const real *R); /* I - c R is in the group */
    void (*retract)(group *self, real c, real *R);            /* Q <- (I - c R) Q after inside; R is no longer needed */

    /* REQUIRED of a family that is not a group, in place of project .. retract: its own update from A and B. All that
     * changes is finite. r_numbers is 0. */
    void (*fit)(group *self, const group_pair *pair, group_fit *how);

    /* OPTIONAL */
    /* A <- Q A and B <- Q^-T B where that is faster than mul and solve_t; the views are of the same shape. */
    void (*form)(const group *self, view A, view B);
    /* X <- Q'Q X where that is faster than mul and mul_t. */
    void (*square)(const group *self, view X);
    /* R of every unit straight from h and v, A and B are never stored: a fast path beside mul, solve_t and project for
     * the whole tensor. R holds capture_numbers; units are in the order in which units() visits them. Squares may leave
     * the number type: the caller looks at largest. capture_numbers is 0 where this group has no such path. */
    int64_t (*fused_size)(const group *self);
    void (*fused)(const group *self, const group_raw *raw, real *R, group_fused *units);
    /* retract with the R of raw made again, for a group that is one unit: where R is as large as Q that is faster than
     * storing it. Then capture is given R = NULL, and only says how large R is. */
    void (*retract_again)(group *self, real c, const group_raw *raw);
    /* y <- alpha Q'Q x, added to y if add, for the whole tensor in one pass; x may be y unless add. false, with nothing
     * done, where this group has no such path. */
    bool (*apply)(const group *self, real alpha, const real *x, bool add, real *y);
    /* For groups that are diagonal but for their last column or row: fills in diagonal [n] and side [n - 1], or with
     * NULL only says which; and makes an R of the sums that capture has taken. A kron of two such is captured. */
    group_side (*pattern)(const group *self, real *diagonal, real *side);
    void (*pattern_r)(const group *self, const double *diagonal, const double *side, real *R);
    /* Q <- c Q. NULL where that would leave the group, as it does where a child has none. */
    void (*rescale)(group *self, real c);
    /* Calls visit for each part that is normalised on its own. NULL: the group itself is one such unit. */
    psgd_status (*units)(group *self, const group_pair *pair, group_unit visit, void *data);
    /* R <- R + weight Pi(QQ') or weight Pi(Q^-T Q^-1), and ||Q||_F^2 or ||Q^-1||_F^2, where a closed form beats
     * applying Q to the columns of I. */
    void (*gram)(const group *self, bool inverse, double weight, real *R);
    double (*energy)(const group *self, bool inverse);
    /* max |Q|, where state has more than Q in it. */
    real (*largest)(const group *self);
    /* Smallest and largest singular value of Q, where cheap. */
    void (*range)(const group *self, double *smallest, double *largest);
};

/* r_sums adds the sums of |R| along rows and columns and of R^2: rows and columns have n entries. From these
 * psgd__r_bound makes min(||R||_F, sqrt(||R||_1 ||R||_inf)). */

#define psgd__group_create       PSGD_TYPED(psgd__group_create)
#define psgd__group_build        PSGD_TYPED(psgd__group_build)
#define psgd__group_base         PSGD_TYPED(psgd__group_base)
#define psgd__group_array        PSGD_TYPED(psgd__group_array)
#define psgd__group_reals        PSGD_TYPED(psgd__group_reals)
#define psgd__group_free         PSGD_TYPED(psgd__group_free)
#define psgd__group_units        PSGD_TYPED(psgd__group_units)
#define psgd__group_can_rescale  PSGD_TYPED(psgd__group_can_rescale)
#define psgd__group_gram         PSGD_TYPED(psgd__group_gram)
#define psgd__group_energy       PSGD_TYPED(psgd__group_energy)
#define psgd__group_range        PSGD_TYPED(psgd__group_range)
#define psgd__group_largest      PSGD_TYPED(psgd__group_largest)
#define psgd__group_visit        PSGD_TYPED(psgd__group_visit)
#define psgd__group_to_dense     PSGD_TYPED(psgd__group_to_dense)
#define psgd__group_balance      PSGD_TYPED(psgd__group_balance)
#define psgd__r_bound            PSGD_TYPED(psgd__r_bound)
#define psgd__r_spectral         PSGD_TYPED(psgd__r_spectral)
#define psgd__group_reserve_sums PSGD_TYPED(psgd__group_reserve_sums)
#define psgd__group_n            PSGD_TYPED(psgd__group_n)
#define psgd__group_no_state     PSGD_TYPED(psgd__group_no_state)
#define psgd__builtin_at         PSGD_TYPED(psgd__builtin_at)
#define psgd__group_ops_at       PSGD_TYPED(psgd__group_ops_at)

const group_ops *psgd__builtin_at(int index);
const group_ops *psgd__group_ops_at(const psgd_context *context, int index); /* the caller's own come after those */

/* Builds the group of a fitted spec. The caller calls ops->reset before use. */
psgd_status psgd__group_create(const group_args *args, const spec_tree *tree, group **created);
psgd_status psgd__group_build(const group_args *args, group **created); /* for composites: a child */
void psgd__group_free(group *self);

/* Allocates a group whose struct starts with the base and fills that in; NULL, with the sentence set, where it cannot.
 */
void *psgd__group_base(const group_args *args, const group_ops *ops, size_t bytes);

/* An array for the group, freed with it. On failure the group is freed. In a dry run *array is NULL. */
psgd_status psgd__group_array(const group_args *args, void *self, int64_t count, size_t size, void *array);
psgd_status psgd__group_reals(const group_args *args, void *self, int64_t count, real **array);

psgd_status psgd__group_units(group *self, const group_pair *pair, group_unit visit, void *data);
bool psgd__group_can_rescale(const group *self);
void psgd__group_gram(const group *self, bool inverse, double weight, real *R);
double psgd__group_energy(const group *self, bool inverse);
psgd_status psgd__group_range(const group *self, double *smallest, double *largest);
real psgd__group_largest(const group *self);                        /* max |entry| of what makes up Q */
void psgd__group_visit(group *self, group_state visit, void *data); /* state, children included */
void psgd__group_to_dense(const group *self, real *Q);              /* n x n, row-major */
void psgd__group_balance(group *self);                              /* kron: see kron.c */

/* The most fibres that one R of this group sums over. */
static inline int64_t group_columns(const group *self)
{
    return self->fibres * self->pairs + self->extra;
}

/* A group that uses psgd__r_spectral calls this while it is created. */
void psgd__group_reserve_sums(group *self);

/* For r_spectral of groups without anything better: the bound from r_sums. */
real psgd__r_spectral(const group *self, const real *R);
real psgd__r_bound(int64_t n, const double *rows, const double *columns, double squares);

int64_t psgd__group_n(const group *self); /* n, for numbers and r_numbers */
void psgd__group_no_state(group *self, group_state visit, void *data);

#endif
