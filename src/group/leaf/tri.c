/* Triangular matrices with positive diagonal, specs "tri" (upper) and "tril" (lower).
 *
 * Two storage schemes (paper, section 4.1). With many fibres Q and R are squares of which one triangle is used, and
 * everything is BLAS-3: trmm, trsm, syrk, triangle times triangle; O(n^2 k + n^3). With a few fibres R is their outer
 * products, never multiplied out, Q is packed by rows, and an update is O(n^2 k): see tri_packed.c. */
#include "group/leaf/tri.h"
#include "la/matrix/blas.h"
#include "la/la.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static const group_fused tri_fused, packed_fused;

static const tri *as_tri(const group *self)
{
    return (const tri *)self;
}

/* The transposes of one kind are the other. */
static psgd_status create(const group_args *args, bool lower, group **created)
{
    int64_t n = args->spec->n;
    const group_ops *ops = lower ? &GROUP_OPS(tril) : &GROUP_OPS(tri);
    if (n > INT_MAX / 2 || args->fibres > INT_MAX / args->pairs) {
        return psgd__fail(PSGD_ERR_SPEC, "%s of size %lld on %lld fibres is larger than BLAS can count", ops->kind.name,
                          (long long)n, (long long)args->fibres);
    }
    tri *self = psgd__group_base(args, ops, sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    *created = &self->base;

    self->lower = lower;
    self->packed = group_columns(&self->base) <= LOWRANK_MAX_COLUMNS;
    self->base.fused = self->packed ? &packed_fused : &tri_fused;
    self->scratch = psgd__work_reserve(args->work, self->packed ? (LOWRANK_MAX + 1) * n : n, sizeof(real));
    psgd__group_reserve_sums(&self->base);
    return psgd__group_q(args, &self->base, self->packed ? n * (n + 1) / 2 : n * n);
}

static psgd_status tri_create(const group_args *args, group **created)
{
    return create(args, args->transposed, created);
}

static psgd_status tril_create(const group_args *args, group **created)
{
    return create(args, !args->transposed, created);
}

static real *diagonal(const tri *t, int64_t i)
{
    return t->packed ? psgd__tri_row(t, i) : t->base.q + i * t->base.n + i;
}

static void tri_reset(group *self, double scale)
{
    la_scale(self->q_size, 0, self->q);
    for (int64_t i = 0; i < self->n; i++) *diagonal(as_tri(self), i) = (real)scale;
}

static void tri_act(const group *self, group_act act, view X)
{
    const tri *t = as_tri(self);
    if (t->packed) {
        psgd__tri_packed_apply(t, act, X);
    } else {
        (act_inverse(act) ? la_tri_solve : la_tri_mul)(self->q, t->lower, act_transposed(act), X);
    }
}

/* The square, row by row, with zeros in the other triangle. */
static void tri_elements(const group *self, group_state visit, void *data)
{
    const tri *t = as_tri(self);
    int64_t n = self->n;
    real *row = psgd__work_at(self->work, t->scratch);
    for (int64_t i = 0; i < n; i++) {
        int64_t from = t->lower ? 0 : i, count = t->lower ? i + 1 : n - i;
        const real *packed = psgd__tri_row(t, t->lower ? n - 1 - i : i);
        memset(row, 0, (size_t)n * sizeof(real));
        for (int64_t j = 0; j < count; j++) {
            row[from + j] = !t->packed ? self->q[i * n + from + j] : packed[t->lower ? count - 1 - j : j];
        }
        visit(data, row, n);
    }
}

static int64_t tri_size(const group *self)
{
    return self->n * (self->n + 1) / 2;
}

static void tri_cost(const group *self, group_cost *cost)
{
    double n = (double)self->n, k = (double)self->fibres, q = n * (n + 1) / 2 * sizeof(real);
    bool few = as_tri(self)->packed;
    cost->update_flops += few ? 8 * n * n * k : 4 * n * n * k + n * n * n / 3;
    cost->shared_flops += few ? 0 : 6 * n * n * k + n * n * n / 3;
    cost->update_bytes += few ? 3 * q : 4 * q;
    cost->apply_flops += 2 * n * n * k;
    cost->apply_bytes += 2 * q;
}

static int64_t tri_r_size(const group *self)
{
    return as_tri(self)->packed ? lowrank_size(self->n, group_columns(self)) : self->n * self->n;
}

static void tri_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    const tri *t = as_tri(self);
    if (t->packed) {
        if (!accumulate) R[0] = 0;
        lowrank_add(R, A, 1, t->lower);
        lowrank_add(R, B, sign, t->lower);
        return;
    }
    la_sym_outer(A, B, sign, t->lower, accumulate, R);
}

/* Row i of the triangle of a square R: where it starts, and how long it is. */
static const real *square_row(const tri *t, const real *R, int64_t i, int64_t *from, int64_t *count)
{
    int64_t n = t->base.n;
    *from = t->lower ? 0 : i;
    *count = t->lower ? i + 1 : n - i;
    return R + i * n + *from;
}

static real tri_r_max(const group *self, const real *R)
{
    const tri *t = as_tri(self);
    if (t->packed) return lowrank_max(R, self->n, psgd__work_at(self->work, t->scratch));

    real max = 0;
    for (int64_t i = 0; i < self->n; i++) {
        int64_t from, count;
        const real *row = square_row(t, R, i, &from, &count);
        real here = la_max_abs(count, row);
        if (here > max || here != here) max = here;
    }
    return max;
}

static void tri_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    const tri *t = as_tri(self);
    int64_t n = self->n;
    real *scratch = psgd__work_at(self->work, t->scratch);
    for (int64_t i = 0; i < n; i++) {
        int64_t from = i, count = n - i, to = i;
        const real *row = scratch + i;
        if (t->packed) {
            lowrank_row(R, n, i, i, scratch);
            if (t->lower) to = n - 1 - i;
        } else {
            row = square_row(t, R, i, &from, &count);
        }
        for (int64_t j = 0; j < count; j++) {
            double x = (double)row[j];
            rows[to] += fabs(x);
            columns[t->packed && t->lower ? n - 1 - from - j : from + j] += fabs(x);
            *squares += x * x;
        }
    }
}

static void tri_r_mul(const group *self, const real *R, bool transpose, view X)
{
    const tri *t = as_tri(self);
    if (t->packed) {
        psgd__tri_packed_r_mul(t, R, transpose, X);
    } else {
        la_tri_mul(R, t->lower, transpose, X);
    }
}

static bool tri_inside(const group *self, real c, const real *R)
{
    int64_t n = self->n;
    if (as_tri(self)->packed) return psgd__tri_packed_inside(as_tri(self), c, R);
    for (int64_t i = 0; i < n; i++) {
        if (!(c * R[i * n + i] < 1)) return false;
    }
    return true;
}

static void tri_retract(group *self, real c, real *R)
{
    tri *t = (tri *)self;
    int64_t n = self->n;
    if (t->packed) {
        psgd__tri_packed_retract(t, c, R);
    } else {
        la_tri_retract(n, t->lower, c, R, self->q);
    }
    for (int64_t i = 0; i < n; i++) {
        real *q = diagonal(t, i);
        if (!(*q > LA_MIN)) *q = LA_MIN;
    }
}

static void fused_whiten(const group *self, view A, view B)
{
    la_tri_form(self->q, as_tri(self)->lower, A, B);
}

static void fused_square(const group *self, view X)
{
    la_tri_square(self->q, as_tri(self)->lower, X);
}

static void packed_whiten(const group *self, view A, view B)
{
    psgd__tri_packed_whiten(as_tri(self), A, B);
}

static void packed_square(const group *self, view X)
{
    psgd__tri_packed_square(as_tri(self), X);
}

static void packed_apply(const group *self, const real *x, real *y)
{
    psgd__tri_packed_square_to(as_tri(self), x, y);
}

static const group_fused tri_fused = {.whiten = fused_whiten, .square = fused_square};
static const group_fused packed_fused = {.apply = packed_apply, .whiten = packed_whiten, .square = packed_square};

#define TRI_OPS                                                                                                        \
    .reset = tri_reset, .act = tri_act, .size = tri_size, .elements = tri_elements, .cost = tri_cost,                  \
    .r_size = tri_r_size, .project = tri_project, .r_max = tri_r_max, .r_spectral = psgd__r_spectral,                  \
    .r_mul = tri_r_mul, .r_sums = tri_r_sums, .inside = tri_inside, .retract = tri_retract,                            \
    .rescale = psgd__group_rescale

const group_ops GROUP_OPS(tri) = {
    .kind = {.name = "tri",
             .summary = "upper triangular, positive diagonal",
             .formula = "n(n+1)/2",
             .triangular = true},
    .create = tri_create,
    TRI_OPS,
};

const group_ops GROUP_OPS(tril) = {
    .kind = {.name = "tril", .summary = "lower triangular, positive diagonal", .formula = "n(n+1)/2"},
    .create = tril_create,
    TRI_OPS,
};
