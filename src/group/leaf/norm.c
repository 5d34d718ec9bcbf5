/* Diagonal plus last column, specs "norm" and "bnorm" (paper, "Scaling and normalization preconditioner").
 *
 *     Q = [diag(d) c; 0 s]
 *
 * It is block(diag, scale) in closed form. bnorm fixes s = 1: the operation of feature normalisation. The transposes
 * have the last row instead: Q = [diag(d) 0; c' s]. 2n - 1 values (bnorm 2n - 2), O(nk) per op on n x k fibres. An R
 * has the same pattern and is laid out the same: diagonal, then column. */
#include "group/group.h"
#include "la/la.h"

#include <math.h>
#include <string.h>

typedef struct norm {
    group base;
    bool fixed_corner; /* q is d [n - 1], s, c [n - 1] */
} norm;

static bool fixed_corner(const group *self)
{
    return ((const norm *)self)->fixed_corner;
}

static psgd_status create(const group_args *args, const group_ops *ops, bool fixed, group **created)
{
    int64_t n = args->spec->n;
    if (n == 1) return (fixed ? &GROUP_OPS(identity) : &GROUP_OPS(scale))->create(args, created);

    norm *self = psgd__group_base(args, ops, sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    self->base.mix = 2;
    self->fixed_corner = fixed;
    self->base.transposed = args->transposed;
    psgd__group_reserve_sums(&self->base);
    *created = &self->base;
    return psgd__group_q(args, &self->base, 2 * n - 1);
}

static psgd_status norm_create(const group_args *args, group **created)
{
    return create(args, &GROUP_OPS(norm), false, created);
}

static psgd_status bnorm_create(const group_args *args, group **created)
{
    return create(args, &GROUP_OPS(bnorm), true, created);
}

static void norm_reset(group *self, double scale)
{
    psgd__group_reset(self, scale);
    if (fixed_corner(self)) self->q[self->n - 1] = 1;
}

/* X <- [diag(d) c; 0 s] X or its transpose, q = (d, s, c). */
static void pattern_mul(const real *q, int64_t n, bool last_row, view X)
{
    view upper = view_slice(X, 0, n - 1), last = view_slice(X, n - 1, 1);
    const real *c = q + n;
    if (last_row) {
        la_view_scale(last, q[n - 1]);
        la_dot_row(upper, c, 1, last);
        la_scale_rows(upper, q);
    } else {
        la_scale_rows(upper, q);
        la_add_row(upper, 1, c, last);
        la_view_scale(last, q[n - 1]);
    }
}

/* The inverse of pattern_mul. */
static void pattern_solve(const real *q, int64_t n, bool last_row, view X)
{
    const real *c = q + n;
    view upper = view_slice(X, 0, n - 1), last = view_slice(X, n - 1, 1);
    if (last_row) {
        la_divide_rows(upper, q);
        la_dot_row(upper, c, -1, last);
        la_view_scale(last, 1 / q[n - 1]);
    } else {
        la_view_scale(last, 1 / q[n - 1]);
        la_add_row(upper, -1, c, last);
        la_divide_rows(upper, q);
    }
}

static void norm_act(const group *self, group_act act, view X)
{
    bool last_row = self->transposed != act_transposed(act);
    (act_inverse(act) ? pattern_solve : pattern_mul)(self->q, self->n, last_row, X);
}

static int64_t norm_size(const group *self)
{
    return 2 * self->n - 1 - fixed_corner(self);
}

static void norm_cost(const group *self, group_cost *cost)
{
    double n = (double)self->n, all = n * (double)self->fibres;
    cost->update_flops += 14 * all + 8 * n;
    cost->update_bytes += 6 * n * sizeof(real);
    cost->apply_flops += 6 * all;
    cost->apply_bytes += 2 * n * sizeof(real);
}

static void norm_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    int64_t n = self->n;
    la_row_energies(A, B, sign, accumulate, R);
    la_row_products(view_slice(A, 0, n - 1), view_slice(A, n - 1, 1), view_slice(B, 0, n - 1), view_slice(B, n - 1, 1),
                    sign, accumulate, R + n);
    if (fixed_corner(self)) R[n - 1] = 0;
}

static void norm_r_mul(const group *self, const real *R, bool transpose, view X)
{
    pattern_mul(R, self->n, self->transposed != transpose, X);
}

static void norm_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    int64_t n = self->n;
    double *across = self->transposed ? columns : rows, *along = self->transposed ? rows : columns;
    for (int64_t i = 0; i < n; i++) {
        rows[i] += fabs((double)R[i]);
        columns[i] += fabs((double)R[i]);
        *squares += (double)R[i] * (double)R[i];
    }
    for (int64_t i = 0; i < n - 1; i++) {
        double c = (double)R[n + i];
        across[i] += fabs(c);
        along[n - 1] += fabs(c);
        *squares += c * c;
    }
}

static bool norm_inside(const group *self, real c, const real *R)
{
    return la_below_one(self->n, c, R);
}

/* Column: c <- c - g (r_d c + r_c s); row: c <- c - g (r_s c + r_c d), both with the old diagonal. */
static void norm_retract(group *self, real g, real *R)
{
    int64_t n = self->n;
    real *q = self->q, *c = q + n, *rc = R + n;
    for (int64_t i = 0; i < n - 1; i++) {
        real own = self->transposed ? R[n - 1] : R[i], other = self->transposed ? q[i] : q[n - 1];
        c[i] -= g * (own * c[i] + rc[i] * other);
    }
    la_retract_diagonal(n, g, R, q);
}

/* Rows of M = Q, or of M = Q^-T, have at most two entries outside the last; the diagonal of MM' and its last column.
 * For Q with a last column: QQ' = diag(d^2) + cc', corner s^2, column sc. Q^-T = [1/d 0; -c'/(ds) 1/s]. The transposes
 * exchange the two. */
static void norm_gram(const group *self, group_image M, double weight, real *R)
{
    bool inverse = M == IMAGE_INVERSE;
    int64_t n = self->n;
    const real *q = self->q;
    double s = inverse ? 1 / (double)q[n - 1] : (double)q[n - 1], corner = s * s;
    bool last_row = self->transposed != inverse;
    for (int64_t i = 0; i < n - 1; i++) {
        double d = (double)q[i], c = (double)q[n + i];
        if (inverse) {
            d = 1 / d;
            c = -c * d * s;
        }
        R[i] = (real)((double)R[i] + weight * (d * d + (last_row ? 0 : c * c)));
        R[n + i] = (real)((double)R[n + i] + weight * c * (last_row ? d : s));
        if (last_row) corner += c * c;
    }
    if (!fixed_corner(self)) R[n - 1] = (real)((double)R[n - 1] + weight * corner);
}

static double norm_energy(const group *self, group_image M)
{
    bool inverse = M == IMAGE_INVERSE;
    int64_t n = self->n;
    const real *q = self->q;
    double s = inverse ? 1 / (double)q[n - 1] : (double)q[n - 1], sum = s * s;
    for (int64_t i = 0; i < n - 1; i++) {
        double d = (double)q[i], c = (double)q[n + i];
        if (inverse) {
            d = 1 / d;
            c = -c * d * s;
        }
        sum += d * d + c * c;
    }
    return sum;
}

static double bnorm_fixed(const group *self, view X)
{
    return la_view_energy(view_slice(X, self->n - 1, 1));
}

static group_border norm_border(const group *self, real *diagonal, real *side)
{
    int64_t n = self->n;
    if (diagonal) {
        memcpy(diagonal, self->q, (size_t)n * sizeof(real));
        memcpy(side, self->q + n, (size_t)(n - 1) * sizeof(real));
    }
    return self->transposed ? BORDER_ROW : BORDER_COLUMN;
}

static void border_project(const group *self, const double *diagonal, const double *side, real *R)
{
    int64_t n = self->n;
    for (int64_t i = 0; i < n; i++) R[i] = (real)diagonal[i];
    for (int64_t i = 0; i < n - 1; i++) R[n + i] = (real)side[i];
    if (fixed_corner(self)) R[n - 1] = 0;
}

static const group_fused norm_fused = {.border = norm_border, .border_project = border_project};

#define NORM_OPS                                                                                                       \
    .reset = norm_reset, .act = norm_act, .size = norm_size, .cost = norm_cost, .r_size = psgd__group_r_size,          \
    .project = norm_project, .r_max = psgd__group_r_max, .r_spectral = psgd__r_spectral, .r_mul = norm_r_mul,          \
    .r_sums = norm_r_sums, .inside = norm_inside, .retract = norm_retract, .gram = norm_gram, .energy = norm_energy,   \
    .fused = &norm_fused

const group_ops GROUP_OPS(norm) = {
    .kind = {.name = "norm", .summary = "diagonal plus last column", .formula = "2n - 1"},
    .create = norm_create,
    .rescale = psgd__group_rescale,
    NORM_OPS,
};

const group_ops GROUP_OPS(bnorm) = {
    .kind = {.name = "bnorm", .summary = "norm with the last diagonal entry fixed to 1", .formula = "2n - 2"},
    .create = bnorm_create,
    .fixed = bnorm_fixed,
    NORM_OPS,
};
