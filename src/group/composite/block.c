/* Block triangular matrices, spec "block(A:k,B:l)" (paper, equation new_group).
 *
 *     Q = [A C; 0 B],  C any k x l matrix;  its transposes are [A 0; C B], C l x k.
 *
 * Both are one code: the part that receives (to) gets C times the part that gives (from). R has the same pattern and is
 * laid out as R_to, R_from, R_C; everything inside shares one norm. */
#include "group/group.h"
#include "la/matrix/blas.h"
#include "la/la.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct block {
    group base;
    int to, from;    /* which child receives and which gives: 0, 1, or 1, 0 where transposed */
    int64_t scratch; /* in the workspace, as large as C */
    real *C;         /* [n_to][n_from] */
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
    PSGD_TRY(psgd__group_reals(args, self, size, &self->C));
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

static int64_t c_size(const group *self)
{
    return self->child[0]->n * self->child[1]->n;
}

static void block_reset(group *self, double scale)
{
    la_scale(c_size(self), 0, ((block *)self)->C);
    for (int i = 0; i < 2; i++) self->child[i]->ops->reset(self->child[i], scale);
}

/* to += alpha C from, or from += alpha C'to. */
static void couple(const group *self, const real *C, real alpha, bool transpose, view X)
{
    view to = to_slice(self, X), from = from_slice(self, X);
    la_mat_add_mul(C, to.n, from.n, transpose, alpha, transpose ? to : from, 1, transpose ? from : to);
}

static void block_mul(const group *self, view X)
{
    const group *to = to_part(self), *from = from_part(self);
    to->ops->mul(to, to_slice(self, X));
    couple(self, as_block(self)->C, 1, false, X);
    from->ops->mul(from, from_slice(self, X));
}

static void block_mul_t(const group *self, view X)
{
    const group *to = to_part(self), *from = from_part(self);
    from->ops->mul_t(from, from_slice(self, X));
    couple(self, as_block(self)->C, 1, true, X);
    to->ops->mul_t(to, to_slice(self, X));
}

static void block_solve(const group *self, view X)
{
    const group *to = to_part(self), *from = from_part(self);
    from->ops->solve(from, from_slice(self, X));
    couple(self, as_block(self)->C, -1, false, X);
    to->ops->solve(to, to_slice(self, X));
}

static void block_solve_t(const group *self, view X)
{
    const group *to = to_part(self), *from = from_part(self);
    to->ops->solve_t(to, to_slice(self, X));
    couple(self, as_block(self)->C, -1, true, X);
    from->ops->solve_t(from, from_slice(self, X));
}

static int64_t block_size(const group *self)
{
    return psgd__parts_size(self) + c_size(self);
}

static void block_state(group *self, group_state visit, void *data)
{
    visit(data, ((block *)self)->C, c_size(self));
}

static void block_cost(const group *self, group_cost *cost)
{
    double kl = (double)c_size(self), f = (double)self->fibres;
    psgd__parts_cost(self, cost);
    cost->update_flops += 8 * kl * f + 2 * kl * (double)self->n;
    cost->update_bytes += 5 * kl * sizeof(real);
    cost->apply_flops += 4 * kl * f;
    cost->apply_bytes += 2 * kl * sizeof(real);
}

static int64_t block_r_size(const group *self)
{
    const group *a = self->child[0], *b = self->child[1];
    return a->ops->r_size(a) + b->ops->r_size(b) + c_size(self);
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
    if (!A.x && !B.x && !accumulate) la_scale(c_size(self), 0, r.C);
}

static real block_r_max(const group *self, const real *R)
{
    const group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    double max = fmax((double)to->ops->r_max(to, r.to), (double)from->ops->r_max(from, r.from));
    return (real)fmax(max, (double)la_max_abs(c_size(self), r.C));
}

static void block_r_mul(const group *self, const real *R, view X)
{
    const group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    to->ops->r_mul(to, r.to, to_slice(self, X));
    couple(self, r.C, 1, false, X);
    from->ops->r_mul(from, r.from, from_slice(self, X));
}

static void block_r_mul_t(const group *self, const real *R, view X)
{
    const group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    from->ops->r_mul_t(from, r.from, from_slice(self, X));
    couple(self, r.C, 1, true, X);
    to->ops->r_mul_t(to, r.to, to_slice(self, X));
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
    block *b = (block *)self;
    group *to = to_part(self), *from = from_part(self);
    r_parts r = split(self, R);
    int64_t size = c_size(self);
    real *scratch = psgd__work_at(self->work, b->scratch);

    memcpy(scratch, b->C, (size_t)size * sizeof(real));
    to->ops->r_mul(to, r.to, view_columns(scratch, to->n, from->n));
    from->ops->mul_t(from, view_rows(r.C, from->n, to->n));
    la_axpy(size, -c, scratch, b->C);
    la_axpy(size, -c, r.C, b->C);
    to->ops->retract(to, c, r.to);
    from->ops->retract(from, c, r.from);
}

static void block_rescale(group *self, real c)
{
    la_scale(c_size(self), c, ((block *)self)->C);
    for (int i = 0; i < 2; i++) self->child[i]->ops->rescale(self->child[i], c);
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
    .mul = block_mul,
    .mul_t = block_mul_t,
    .solve = block_solve,
    .solve_t = block_solve_t,
    .size = block_size,
    .state = block_state,
    .cost = block_cost,
    .r_size = block_r_size,
    .project = block_project,
    .r_max = block_r_max,
    .r_spectral = psgd__r_spectral,
    .r_mul = block_r_mul,
    .r_mul_t = block_r_mul_t,
    .r_sums = block_r_sums,
    .inside = block_inside,
    .retract = block_retract,
    .rescale = block_rescale,
};
