/* Block triangular matrices, spec "block(A:k,B:l)" (paper, equation new_group).
 *
 *     Q = [A C; 0 B],  C any k x l matrix;  its transposes are [A 0; C B], C l x k.
 *
 * One implementation serves both: C times one part (from) is added to the other (to). R has the same pattern and is
 * laid out as R_to, R_from, R_C; everything inside shares one norm. */
#include "group/group.h"
#include "la/matrix/blas.h"
#include "la/la.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct block {
    group base;
    int to, from;    /* children: 0, 1, or 1, 0 where transposed */
    int64_t scratch; /* in the workspace, as large as C; C [n_to][n_from] is q */
} block;

static const block *as_block(const group *self)
{
    return (const block *)self;
}

static psgd_status block_create(const group_args *args, group **created)
{
    int64_t k = args->spec->first->n, l = args->spec->first->next->n, size;
    if (k > INT_MAX || l > INT_MAX || args->fibres > INT_MAX / args->pairs || !psgd__mul_fits(k, l, &size)) {
        return psgd__fail(PSGD_ERR_SPEC, "block of sizes %lld and %lld is larger than BLAS can count", (long long)k,
                          (long long)l);
    }
    block *self = psgd__group_base(args, &GROUP_OPS(block), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    self->base.transposed = args->transposed;
    self->to = args->transposed;
    self->from = !args->transposed;
    self->scratch = psgd__work_reserve(args->work, size, sizeof(real));
    psgd__group_reserve_sums(&self->base);

    *created = &self->base;
    PSGD_TRY(psgd__group_q(args, &self->base, size));
    return psgd__group_parts(args, &self->base, self->base.extra);
}

static group *to_part(const group *self)
{
    return self->child[as_block(self)->to];
}

static group *from_part(const group *self)
{
    return self->child[as_block(self)->from];
}

static view to_slice(const group *self, view X)
{
    return view_slice(X, as_block(self)->to ? self->child[0]->n : 0, to_part(self)->n);
}

static view from_slice(const group *self, view X)
{
    return view_slice(X, as_block(self)->from ? self->child[0]->n : 0, from_part(self)->n);
}

static void block_reset(group *self, double scale)
{
    la_scale(self->q_size, 0, self->q);
    for (int i = 0; i < 2; i++) self->child[i]->ops->reset(self->child[i], scale);
}

/* to += alpha C from, or from += alpha C'to. */
static void couple(const group *self, const real *C, real alpha, bool transpose, view X)
{
    view to = to_slice(self, X), from = from_slice(self, X);
    la_mat_add_mul(C, from.n, transpose, alpha, transpose ? to : from, 1, transpose ? from : to);
}

/* [A C; 0 B] x takes C times the old from, so to comes first; the transposes and inverses turn that around. */
static void block_act(const group *self, group_act act, view X)
{
    bool to_first = act_inverse(act) == act_transposed(act);
    const group *to = to_part(self), *from = from_part(self);
    if (to_first) to->ops->act(to, act, to_slice(self, X));
    if (!to_first) from->ops->act(from, act, from_slice(self, X));
    couple(self, self->q, act_inverse(act) ? -1 : 1, act_transposed(act), X);
    if (to_first) from->ops->act(from, act, from_slice(self, X));
    if (!to_first) to->ops->act(to, act, to_slice(self, X));
}

static void block_cost(const group *self, group_cost *cost)
{
    double kl = (double)self->q_size, f = (double)self->fibres;
    psgd__parts_cost(self, cost);
    cost->update_flops += 8 * kl * f + 2 * kl * (double)self->n;
    cost->update_bytes += 5 * kl * sizeof(real);
    cost->apply_flops += 4 * kl * f;
    cost->apply_bytes += 2 * kl * sizeof(real);
}

/* R as its three parts. */
typedef struct r_parts {
    real *to, *from, *C;
} r_parts;

static r_parts split(const group *self, const real *R)
{
    const group *to = to_part(self), *from = from_part(self);
    r_parts parts = {.to = (real *)R};
    parts.from = parts.to + to->ops->r_size(to);
    parts.C = parts.from + from->ops->r_size(from);
    return parts;
}

static void block_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    const group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    view At = to_slice(self, A), Af = from_slice(self, A), Bt = to_slice(self, B), Bf = from_slice(self, B);
    to->ops->project(to, At, Bt, sign, accumulate, r.to);
    from->ops->project(from, Af, Bf, sign, accumulate, r.from);
    if (A.x) la_cross_outer(At, Af, 1, accumulate ? 1 : 0, r.C);
    if (B.x) la_cross_outer(Bt, Bf, (real)sign, accumulate || A.x ? 1 : 0, r.C);
    if (!A.x && !B.x && !accumulate) la_scale(self->q_size, 0, r.C);
}

static real block_r_max(const group *self, const real *R)
{
    const group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    double max = fmax((double)to->ops->r_max(to, r.to), (double)from->ops->r_max(from, r.from));
    return (real)fmax(max, (double)la_max_abs(self->q_size, r.C));
}

static void block_r_mul(const group *self, const real *R, bool transpose, view X)
{
    const group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    if (!transpose) to->ops->r_mul(to, r.to, false, to_slice(self, X));
    if (transpose) from->ops->r_mul(from, r.from, true, from_slice(self, X));
    couple(self, r.C, 1, transpose, X);
    if (!transpose) from->ops->r_mul(from, r.from, false, from_slice(self, X));
    if (transpose) to->ops->r_mul(to, r.to, true, to_slice(self, X));
}

static void block_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    const group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    int64_t at_to = as_block(self)->to ? self->child[0]->n : 0, at_from = as_block(self)->from ? self->child[0]->n : 0;
    to->ops->r_sums(to, r.to, rows + at_to, columns + at_to, squares);
    from->ops->r_sums(from, r.from, rows + at_from, columns + at_from, squares);
    for (int64_t i = 0; i < to->n; i++) {
        for (int64_t j = 0; j < from->n; j++) {
            double x = (double)r.C[i * from->n + j];
            rows[at_to + i] += fabs(x);
            columns[at_from + j] += fabs(x);
            *squares += x * x;
        }
    }
}

static bool block_inside(const group *self, real c, const real *R)
{
    const group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    return to->ops->inside(to, c, r.to) && from->ops->inside(from, c, r.from);
}

/* C <- C - c (R_to C + R_C from), with the old from. */
static void block_retract(group *self, real c, real *R)
{
    group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    real *scratch = psgd__work_at(self->work, as_block(self)->scratch);

    memcpy(scratch, self->q, (size_t)self->q_size * sizeof(real));
    to->ops->r_mul(to, r.to, false, view_columns(scratch, to->n, from->n));
    from->ops->act(from, ACT_MUL_T, view_rows(r.C, from->n, to->n));
    la_axpy(self->q_size, -c, scratch, self->q);
    la_axpy(self->q_size, -c, r.C, self->q);
    to->ops->retract(to, c, r.to);
    from->ops->retract(from, c, r.from);
}

const group_ops GROUP_OPS(block) = {
    .kind = {.name = "block",
             .summary = "block(A:k,B:l): [A C; 0 B], C any k x l matrix",
             .formula = "A + B + kl",
             .min_children = 2,
             .max_children = 2,
             .sizes = SIZES_ADD},
    .create = block_create,
    .reset = block_reset,
    .act = block_act,
    .size = psgd__group_size,
    .cost = block_cost,
    .r_size = psgd__group_r_size,
    .project = block_project,
    .r_max = block_r_max,
    .r_spectral = psgd__r_spectral,
    .r_mul = block_r_mul,
    .r_sums = block_r_sums,
    .inside = block_inside,
    .retract = block_retract,
    .rescale = psgd__group_rescale,
    .fixed = psgd__parts_fixed,
};
