/* Direct sums, spec "sum(G:k,H:l,...)": each part acts on its own stretch of the fibre and is normalised on its own,
 * except inside a block, where the R of the parts stand one after the other. Both norms of R are the max over the
 * parts. An op costs what it costs the parts. */
#include "group/group.h"
#include "la/la.h"

#include <math.h>
#include <stddef.h>

static psgd_status sum_create(const group_args *args, group **created)
{
    *created = psgd__group_base(args, &GROUP_OPS(sum), sizeof **created);
    return *created ? psgd__group_parts(args, *created, args->extra) : PSGD_ERR_NO_MEMORY;
}

static void sum_reset(group *self, double scale)
{
    for (int i = 0; i < self->child_count; i++) self->child[i]->ops->reset(self->child[i], scale);
}

typedef real (*norm_op)(const group *part, const real *R);

static void sum_act(const group *self, group_act act, view X)
{
    int64_t from = 0;
    for (int i = 0; i < self->child_count; i++) {
        const group *part = self->child[i];
        part->ops->act(part, act, view_slice(X, from, part->n));
        from += part->n;
    }
}

static group_pair slice_pair(const group_pair *pair, int64_t from, int64_t n)
{
    group_pair part = *pair;
    part.A = view_slice(pair->A, from, n);
    part.B = view_slice(pair->B, from, n);
    part.h = view_slice(pair->h, from, n);
    part.v = view_slice(pair->v, from, n);
    return part;
}

static psgd_status sum_units(group *self, const group_pair *pair, group_unit visit, void *data)
{
    int64_t from = 0;
    for (int i = 0; i < self->child_count; i++) {
        group *child = self->child[i];
        group_pair part = slice_pair(pair, from, child->n);
        PSGD_TRY(psgd__group_units(child, &part, visit, data));
        from += child->n;
    }
    return PSGD_OK;
}

static void sum_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    int64_t from = 0;
    for (int i = 0; i < self->child_count; i++) {
        const group *part = self->child[i];
        part->ops->project(part, view_slice(A, from, part->n), view_slice(B, from, part->n), sign, accumulate, R);
        from += part->n;
        R += part->ops->r_size(part);
    }
}

static real max_of_parts(const group *self, size_t op, const real *R)
{
    real max = 0;
    for (int i = 0; i < self->child_count; i++) {
        const group *part = self->child[i];
        norm_op call = *(const norm_op *)((const char *)part->ops + op);
        max = (real)fmax((double)max, (double)call(part, R));
        R += part->ops->r_size(part);
    }
    return max;
}

static real sum_r_max(const group *self, const real *R)
{
    return max_of_parts(self, offsetof(group_ops, r_max), R);
}

static real sum_r_spectral(const group *self, const real *R)
{
    return max_of_parts(self, offsetof(group_ops, r_spectral), R);
}

static void sum_r_mul(const group *self, const real *R, bool transpose, view X)
{
    int64_t from = 0;
    for (int i = 0; i < self->child_count; i++) {
        const group *part = self->child[i];
        part->ops->r_mul(part, R, transpose, view_slice(X, from, part->n));
        from += part->n;
        R += part->ops->r_size(part);
    }
}

static void sum_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    int64_t from = 0;
    for (int i = 0; i < self->child_count; i++) {
        const group *part = self->child[i];
        part->ops->r_sums(part, R, rows + from, columns + from, squares);
        from += part->n;
        R += part->ops->r_size(part);
    }
}

static bool sum_inside(const group *self, real c, const real *R)
{
    bool all = true;
    for (int i = 0; i < self->child_count; i++) {
        const group *part = self->child[i];
        all = all && part->ops->inside(part, c, R);
        R += part->ops->r_size(part);
    }
    return all;
}

static void sum_retract(group *self, real c, real *R)
{
    for (int i = 0; i < self->child_count; i++) {
        group *part = self->child[i];
        int64_t size = part->ops->r_size(part);
        part->ops->retract(part, c, R);
        R += size;
    }
}

static void sum_gram(const group *self, group_image M, double weight, real *R)
{
    for (int i = 0; i < self->child_count; i++) {
        psgd__group_gram(self->child[i], M, weight, R);
        R += self->child[i]->ops->r_size(self->child[i]);
    }
}

static double sum_energy(const group *self, group_image M)
{
    double total = 0;
    for (int i = 0; i < self->child_count; i++) total += psgd__group_energy(self->child[i], M);
    return total;
}

const group_ops GROUP_OPS(sum) = {
    .kind = {.name = "sum",
             .summary = "sum(G:k,H:l,...): direct sum",
             .formula = "of the parts",
             .min_children = 1,
             .max_children = -1,
             .sizes = SIZES_ADD,
             .holds_tensors = true,
             .self_adjoint = true},
    .create = sum_create,
    .reset = sum_reset,
    .act = sum_act,
    .size = psgd__group_size,
    .cost = psgd__parts_cost,
    .r_size = psgd__group_r_size,
    .project = sum_project,
    .r_max = sum_r_max,
    .r_spectral = sum_r_spectral,
    .r_mul = sum_r_mul,
    .r_sums = sum_r_sums,
    .inside = sum_inside,
    .retract = sum_retract,
    .rescale = psgd__group_rescale,
    .units = sum_units,
    .gram = sum_gram,
    .energy = sum_energy,
    .fixed = psgd__parts_fixed,
};
