/* All invertible matrices, spec "dense".
 *
 * Q and its inverse are both kept, so every op is a product. With a few fibres the update has low rank: the inverse
 * follows by Woodbury's formula in O(n^2) and is recomputed by LU when its residual has grown; with more fibres it is
 * recomputed by LU each time, O(n^3). The normaliser max does not protect this group: inside reports where a step would
 * make Q singular.
 *
 * Update rules that need no inverse keep Q alone: a retraction is then one product, and Q^-1 is computed by LU on
 * request. */
#include "group/leaf/dense.h"
#include "group/leaf/lowrank.h"
#include "la/la.h"
#include "la/matrix/blas.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static psgd_status dense_create(const group_args *args, group **created)
{
    int64_t n = args->spec->n;
    if (n > INT_MAX / DENSE_PANEL || args->fibres > INT_MAX / args->pairs) {
        return psgd__fail(PSGD_ERR_SPEC, "dense of size %lld on %lld fibres is larger than BLAS can count",
                          (long long)n, (long long)args->fibres);
    }
    dense *self = psgd__group_base(args, &GROUP_OPS(dense), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    *created = &self->base;

    self->few = group_columns(&self->base) <= LOWRANK_MAX_COLUMNS;
    int64_t fibres = args->fibres * args->pairs;
    self->width = n < DENSE_LARGE || fibres <= DENSE_PANEL ? DENSE_PANEL : fibres < DENSE_WIDE ? fibres : DENSE_WIDE;
    self->panel = psgd__work_reserve(args->work, n * self->width, sizeof(real));
    self->next = psgd__work_reserve(args->work, n * n, sizeof(real));
    self->probe = psgd__work_reserve(args->work, n, sizeof(real));
    self->estimate = psgd__work_reserve(args->work, la_norm_work(n), sizeof(real));
    if (args->inverse_free) self->turned = psgd__work_reserve(args->work, n * n, sizeof(real));
    if (args->integrate) psgd__group_reserve_panel(&self->base);
    psgd__group_reserve_sums(&self->base);
    PSGD_TRY(psgd__group_reals(args, self, n * n, &self->q));
    if (!args->inverse_free) PSGD_TRY(psgd__group_reals(args, self, n * n, &self->inverse));
    return psgd__group_array(args, self, n, sizeof(int), &self->pivots);
}

static void dense_reset(group *self, double scale)
{
    dense *d = (dense *)self;
    int64_t n = self->n;
    memset(d->q, 0, (size_t)(n * n) * sizeof(real));
    for (int64_t i = 0; i < n; i++) d->q[i * n + i] = (real)scale;
    d->fresh = 0;
    if (!d->inverse) return;
    memset(d->inverse, 0, (size_t)(n * n) * sizeof(real));
    for (int64_t i = 0; i < n; i++) d->inverse[i * n + i] = (real)(1 / scale);
}

/* X <- M X or M'X in place: a panel of fibres is copied, then multiplied back. */
void dense_mul_in_place(const group *self, const real *M, bool transpose, view X)
{
    int64_t n = self->n, width = as_dense(self)->width;
    real *panel = psgd__work_at(self->work, as_dense(self)->panel);
    for (int64_t b = 0; b < X.blocks; b++) {
        for (int64_t o = 0; o < X.outer; o += X.inner == 1 ? width : 1) {
            real *x = view_matrix(&X, b * X.outer + o);
            int64_t many = X.inner == 1 ? X.outer - o : X.inner;
            for (int64_t j = 0; j < many; j += width) {
                int64_t count = many - j < width ? many - j : width;
                if (X.inner == 1) {
                    view part = {.x = x, .n = n, .inner = 1, .outer = count, .ld = X.ld, .blocks = 1};
                    la_view_copy(part, view_rows(panel, n, count));
                    la_mat_add_mul(M, n, transpose, 1, view_rows(panel, n, count), 0, part);
                    break;
                }
                for (int64_t i = 0; i < n; i++) {
                    memcpy(panel + i * count, x + i * X.inner + j, (size_t)count * sizeof(real));
                }
                la_gemm(transpose, false, n, count, n, 1, M, n, panel, count, 0, x + j, X.inner);
            }
        }
    }
}

static void dense_act(const group *self, group_act act, view X)
{
    const dense *d = as_dense(self);
    dense_mul_in_place(self, act_inverse(act) ? dense_inverse_of(d) : d->q, act_transposed(act), X);
}

static int64_t dense_size(const group *self)
{
    return self->n * self->n;
}

static void dense_state(group *self, group_state visit, void *data)
{
    dense *d = (dense *)self;
    visit(data, d->q, self->n * self->n);
    if (!self->inverse_free) visit(data, d->inverse, self->n * self->n);
}

/* Q without its inverse. */
static void dense_elements(const group *self, group_state visit, void *data)
{
    visit(data, as_dense(self)->q, self->n * self->n);
}

static void dense_cost(const group *self, group_cost *cost)
{
    double n = (double)self->n, k = (double)self->fibres, q = n * n * sizeof(real);
    bool few = as_dense(self)->few;
    cost->update_flops += few ? 20 * n * n * k : 6 * n * n * k + 4 * n * n * n;
    cost->shared_flops += few ? 0 : 10 * n * n * k + 2 * n * n * n; /* all but the inverse */
    cost->update_bytes += few ? 8 * q : 10 * q;
    cost->apply_flops += 4 * n * n * k;
    cost->apply_bytes += 2 * q;
}

static int64_t dense_r_size(const group *self)
{
    return as_dense(self)->few ? lowrank_size(self->n, group_columns(self)) : self->n * self->n;
}

static void dense_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    if (as_dense(self)->few) {
        if (!accumulate) R[0] = 0;
        lowrank_add(R, A, 1, false);
        lowrank_add(R, B, sign, false);
        return;
    }
    la_sym_outer(A, B, sign, false, accumulate, R);
    la_mirror(self->n, R);
}

static real dense_r_max(const group *self, const real *R)
{
    const dense *d = as_dense(self);
    if (d->few) return lowrank_max(R, self->n, psgd__work_at(self->work, d->panel));
    return la_max_abs(self->n * self->n, R);
}

static void dense_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    const dense *d = as_dense(self);
    int64_t n = self->n;
    real *panel = psgd__work_at(self->work, d->panel);
    for (int64_t i = 0; i < n; i++) {
        const real *row = d->few ? panel : R + i * n;
        if (d->few) lowrank_row(R, n, i, 0, panel);
        for (int64_t j = 0; j < n; j++) {
            double x = (double)row[j];
            rows[i] += fabs(x);
            columns[j] += fabs(x);
            *squares += x * x;
        }
    }
}

/* ||b - ta||^2, by itself: where a and b are nearly parallel nothing is left of a difference of products. */
static double part_across(const group *self, const real *a, const real *b, double t)
{
    real *across = psgd__work_at(self->work, as_dense(self)->panel);
    memcpy(across, b, (size_t)self->n * sizeof(real));
    la_axpy(self->n, (real)-t, a, across);
    return la_dot(self->n, across, across);
}

/* The eigenvalues of aa' + s bb' in closed form; anything else by the bound. With s = 1 they are half the sum of the
 * squares plus and minus sqrt(d^2 + (a'b)^2), d half their difference; with s = -1 the parts of sum and difference
 * change, and a'a b'b - (a'b)^2 stands for (a'b)^2. */
static real dense_r_spectral(const group *self, const real *R)
{
    int64_t n = self->n;
    if (!as_dense(self)->few || lowrank_count(R) != 2 || lowrank_sign(R, 0) < 0) return psgd__r_spectral(self, R);

    const real *a = lowrank_vector(R, n, 0), *b = lowrank_vector(R, n, 1);
    double s = (double)lowrank_sign(R, 1), aa = la_dot(n, a, a), bb = la_dot(n, b, b), ab = la_dot(n, a, b);
    double half = 0.5 * (aa + s * bb), rest = ab * ab;
    if (s < 0) rest = aa * bb - ab * ab < 0.1 * aa * bb ? aa * part_across(self, a, b, ab / aa) : aa * bb - ab * ab;
    double difference = s < 0 ? half : 0.5 * (aa - bb);
    return (real)(fabs(half) + sqrt(difference * difference + rest));
}

/* R is symmetric. Low rank: x <- sum_k s_k y_k (y_k'x), one fibre after the other. */
static void dense_r_mul(const group *self, const real *R, bool transpose, view X)
{
    (void)transpose;
    const dense *d = as_dense(self);
    int64_t n = self->n;
    if (!d->few) {
        dense_mul_in_place(self, R, false, X);
        return;
    }
    real *scratch = psgd__work_at(self->work, d->panel), *y = scratch + n;
    for (int64_t f = 0; f < view_fibres(X); f++) {
        const real *x = lowrank_borrow(X, f, false, scratch);
        memset(y, 0, (size_t)n * sizeof(real));
        for (int k = 0; k < lowrank_count(R); k++) {
            const real *vector = lowrank_vector(R, n, k);
            la_axpy(n, (real)((double)lowrank_sign(R, k) * la_dot(n, vector, x)), vector, y);
        }
        lowrank_return(X, f, false, y);
    }
}

static void dense_rescale(group *self, real c)
{
    dense *d = (dense *)self;
    la_scale(self->n * self->n, c, d->q);
    if (d->inverse) la_scale(self->n * self->n, 1 / c, d->inverse);
}

/* The inverse is state too, and large where Q is small. */
static real dense_largest(const group *self)
{
    return la_max_abs(self->n * self->n, as_dense(self)->q);
}

static void dense_gram(const group *self, group_image M, double weight, real *R)
{
    int64_t n = self->n;
    if (as_dense(self)->few || M != IMAGE_IDENTITY) {
        psgd__gram_by_columns(self, M, weight, R);
        return;
    }
    for (int64_t i = 0; i < n; i++) R[i * n + i] = (real)((double)R[i * n + i] + weight);
}

static double dense_energy(const group *self, group_image M)
{
    if (M == IMAGE_IDENTITY) return (double)self->n;
    if (M == IMAGE_P || M == IMAGE_QP) return psgd__energy_by_columns(self, M);
    const real *own = M == IMAGE_INVERSE ? dense_inverse_of(as_dense(self)) : as_dense(self)->q;
    return la_dot(self->n * self->n, own, own);
}

static void dense_retract(group *self, real c, real *R)
{
    (as_dense(self)->inverse ? dense_retract_inverse : dense_retract_left)(self, c, R);
}

static const group_fused dense_fused = {.project_both = dense_project_both, .retract_both = dense_retract_both};

const group_ops GROUP_OPS(dense) = {
    .kind = {.name = "dense",
             .summary = "all invertible matrices",
             .formula = "n^2",
             .unprotected = true,
             .self_adjoint = true},
    .fused = &dense_fused,
    .create = dense_create,
    .reset = dense_reset,
    .act = dense_act,
    .size = dense_size,
    .state = dense_state,
    .elements = dense_elements,
    .cost = dense_cost,
    .r_size = dense_r_size,
    .project = dense_project,
    .r_max = dense_r_max,
    .r_spectral = dense_r_spectral,
    .r_mul = dense_r_mul,
    .r_sums = dense_r_sums,
    .inside = dense_inside,
    .retract = dense_retract,
    .rescale = dense_rescale,
    .largest = dense_largest,
    .gram = dense_gram,
    .energy = dense_energy,
    .r_norm = dense_r_norm,
    .retract_right = dense_retract_right,
    .symmetrise = dense_symmetrise,
    .skew_part = dense_skew_part,
    .rotate = dense_rotate,
};
