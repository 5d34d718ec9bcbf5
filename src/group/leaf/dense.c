/* All invertible matrices, spec "dense".
 *
 * Q and its inverse are both kept, so every op is a product. With a few fibres the update has low rank: the inverse
 * follows by Woodbury's formula in O(n^2) and is recomputed by LU when its residual has grown; with more fibres it is
 * recomputed by LU each time, O(n^3). The normaliser max does not protect this group: inside tells where a step would
 * make Q singular. */
#include "group/leaf/lowrank.h"
#include "group/group.h"
#include "la/matrix/blas.h"
#include "la/array/dispatch.h"
#include "la/la.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum { PANEL = 32 }; /* fibres that an in-place product takes at a time; la_invert needs a panel of that size */

typedef struct dense {
    group base;
    bool few;            /* R is low-rank */
    double fresh;        /* residual of the inverse when it came from LU */
    int64_t panel, next; /* in the workspace: n * PANEL; n * n for (I - c R)^-1 or LU */
    int64_t probe;       /* in the workspace: n, the vector that the residual is computed for */
    real *q, *inverse;
    int *pivots;
} dense;

static const dense *as_dense(const group *self)
{
    return (const dense *)self;
}

static psgd_status dense_create(const group_args *args, group **created)
{
    int64_t n = args->spec->n;
    if (n > INT_MAX / PANEL || args->fibres > INT_MAX / args->pairs) {
        return psgd__fail(PSGD_ERR_SPEC, "dense of size %lld on %lld fibres is larger than BLAS can count",
                          (long long)n, (long long)args->fibres);
    }
    dense *self = psgd__group_base(args, &GROUP_OPS(dense), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    *created = &self->base;

    self->few = group_columns(&self->base) <= LOWRANK_MAX_COLUMNS;
    self->panel = psgd__work_reserve(args->work, n * PANEL, sizeof(real));
    self->next = psgd__work_reserve(args->work, n * n, sizeof(real));
    self->probe = psgd__work_reserve(args->work, n, sizeof(real));
    psgd__group_reserve_sums(&self->base);
    PSGD_TRY(psgd__group_reals(args, self, n * n, &self->q));
    PSGD_TRY(psgd__group_reals(args, self, n * n, &self->inverse));
    return psgd__group_array(args, self, n, sizeof(int), &self->pivots);
}

static void dense_reset(group *self, double scale)
{
    dense *d = (dense *)self;
    int64_t n = self->n;
    la_scale(n * n, 0, d->q);
    la_scale(n * n, 0, d->inverse);
    for (int64_t i = 0; i < n; i++) {
        d->q[i * n + i] = (real)scale;
        d->inverse[i * n + i] = (real)(1 / scale);
    }
    d->fresh = 0;
}

/* X <- M X or M'X in place: a panel of fibres is copied, then multiplied back. */
static void mul_in_place(const group *self, const real *M, bool transpose, view X)
{
    int64_t n = self->n;
    real *panel = psgd__work_at(self->work, as_dense(self)->panel);
    for (int64_t b = 0; b < X.blocks; b++) {
        for (int64_t o = 0; o < X.outer; o += X.inner == 1 ? PANEL : 1) {
            real *x = view_matrix(&X, b * X.outer + o);
            int64_t many = X.inner == 1 ? X.outer - o : X.inner;
            for (int64_t j = 0; j < many; j += PANEL) {
                int64_t count = many - j < PANEL ? many - j : PANEL;
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
    mul_in_place(self, act_inverse(act) ? d->inverse : d->q, act_transposed(act), X);
}

static int64_t dense_size(const group *self)
{
    return self->n * self->n;
}

static void dense_state(group *self, group_state visit, void *data)
{
    dense *d = (dense *)self;
    visit(data, d->q, self->n * self->n);
    visit(data, d->inverse, self->n * self->n);
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

/* syrk fills the upper triangle; the rest is its mirror image. */
static void mirror(int64_t n, real *R)
{
    for (int64_t i = 1; i < n; i++) {
        for (int64_t j = 0; j < i; j++) R[i * n + j] = R[j * n + i];
    }
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
    mirror(self->n, R);
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
        mul_in_place(self, R, false, X);
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

/* max |x - Q Q^-1 x| / max |x| for the vector x. */
static double residual(const dense *d, const real *x)
{
    int64_t n = d->base.n;
    real *y = psgd__work_at(d->base.work, d->panel), *z = y + n;
    double max = 0;
    la_gemm(false, false, n, 1, n, 1, d->inverse, n, x, 1, 0, y, 1);
    la_gemm(false, false, n, 1, n, 1, d->q, n, y, 1, 0, z, 1);
    for (int64_t i = 0; i < n; i++) max = fmax(max, fabs((double)x[i] - (double)z[i]));
    double scale = (double)la_max_abs(n, x);
    return scale > 0 ? max / scale : 0;
}

static bool refresh(dense *d)
{
    int64_t n = d->base.n;
    real *next = psgd__work_at(d->base.work, d->next);
    memcpy(next, d->q, (size_t)(n * n) * sizeof(real));
    if (!la_invert(n, next, d->pivots, psgd__work_at(d->base.work, d->panel))) return false;
    if (!isfinite((double)la_max_abs(n * n, next))) return false;
    memcpy(d->inverse, next, (size_t)(n * n) * sizeof(real));
    return true;
}

/* M <- M^-1 for a few rows, by Gauss-Jordan with pivots; false where M is singular. */
static bool invert_small(int m, double M[LOWRANK_MAX][2 * LOWRANK_MAX])
{
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < m; j++) M[i][m + j] = i == j;
    }
    for (int c = 0; c < m; c++) {
        int best = c;
        for (int r = c + 1; r < m; r++) best = fabs(M[r][c]) > fabs(M[best][c]) ? r : best;
        if (!(fabs(M[best][c]) > 16 * DBL_EPSILON)) return false;
        for (int j = 0; j < 2 * m; j++) {
            double swap = M[c][j];
            M[c][j] = M[best][j];
            M[best][j] = swap;
        }
        for (int r = 0; r < m; r++) {
            double factor = M[r][c] / M[c][c];
            for (int j = 0; r != c && j < 2 * m; j++) M[r][j] -= factor * M[c][j];
        }
        double pivot = M[c][c];
        for (int j = 0; j < 2 * m; j++) M[c][j] /= pivot;
    }
    return true;
}

/* S - c Y'Y, with Y the vectors of a low-rank R and S their signs, inverted into the right half of M. */
static bool woodbury(const group *self, real c, const real *R, double M[LOWRANK_MAX][2 * LOWRANK_MAX])
{
    int64_t n = self->n;
    int m = lowrank_count(R);
    const real *Y = lowrank_vector(R, n, 0);
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < m; j++) {
            M[i][j] = -(double)c * la_dot(n, Y + i * n, Y + j * n) + (i == j ? (double)lowrank_sign(R, i) : 0);
        }
    }
    return invert_small(m, M);
}

/* I - c R can be inverted. Its inverse stays in the workspace for retract. */
static bool dense_inside(const group *self, real c, const real *R)
{
    const dense *d = as_dense(self);
    int64_t n = self->n;
    double M[LOWRANK_MAX][2 * LOWRANK_MAX];
    if (d->few) return woodbury(self, c, R, M);

    real *next = psgd__work_at(self->work, d->next);
    for (int64_t i = 0; i < n * n; i++) next[i] = -c * R[i];
    for (int64_t i = 0; i < n; i++) next[i * n + i] += 1;
    if (!la_invert(n, next, d->pivots, psgd__work_at(self->work, d->panel))) return false;
    return isfinite((double)la_max_abs(n * n, next));
}

/* Q <- Q - c Y S Y'Q, and by Woodbury Q^-1 <- Q^-1 + c Q^-1 Y (S - c Y'Y)^-1 Y'. */
static void retract_few(dense *d, real c, const real *R)
{
    int64_t n = d->base.n;
    int m = lowrank_count(R);
    const real *Y = lowrank_vector(R, n, 0);
    double M[LOWRANK_MAX][2 * LOWRANK_MAX];
    real *W = psgd__work_at(d->base.work, d->panel), *V = W + m * n;
    woodbury(&d->base, c, R, M);

    la_gemm(false, false, m, n, n, 1, Y, n, d->q, n, 0, W, n);
    for (int k = 0; k < m; k++) la_scale(n, -c * lowrank_sign(R, k), W + k * n);
    la_gemm(true, false, n, n, m, 1, Y, n, W, n, 1, d->q, n);

    la_gemm(false, true, m, n, n, c, Y, n, d->inverse, n, 0, W, n); /* W = c (Q^-1 Y)' */
    memset(V, 0, (size_t)(m * n) * sizeof(real));
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < m; j++) la_axpy(n, (real)M[i][m + j], Y + j * n, V + i * n);
    }
    la_gemm(true, false, n, n, m, 1, W, n, V, n, 1, d->inverse, n);
}

/* The inverse follows by products; when it no longer is one to rounding, LU recomputes it. */
static void dense_retract(group *self, real c, real *R)
{
    dense *d = (dense *)self;
    int64_t n = self->n;
    real *probe = psgd__work_at(self->work, d->probe);
    if (d->few) {
        if (lowrank_count(R) == 0) return;
        memcpy(probe, lowrank_vector(R, n, 0), (size_t)n * sizeof(real));
        retract_few(d, c, R);
    } else {
        memcpy(probe, R, (size_t)n * sizeof(real));
        mul_in_place(self, d->q, true, view_rows(R, n, n));
        la_axpy(n * n, -c, R, d->q);
        mul_in_place(self, psgd__work_at(self->work, d->next), true, view_rows(d->inverse, n, n));
    }
    double limit = 8 * d->fresh + 8 * sqrt((double)n) * REAL_EPSILON;
    if (residual(d, probe) > limit && refresh(d)) d->fresh = residual(d, probe);
}

static void dense_rescale(group *self, real c)
{
    la_scale(self->n * self->n, c, ((dense *)self)->q);
    la_scale(self->n * self->n, 1 / c, ((dense *)self)->inverse);
}

/* The inverse is state too, and large where Q is small. */
static real dense_largest(const group *self)
{
    return la_max_abs(self->n * self->n, as_dense(self)->q);
}

static double dense_energy(const group *self, bool inverse)
{
    const real *M = inverse ? as_dense(self)->inverse : as_dense(self)->q;
    return la_dot(self->n * self->n, M, M);
}

const group_ops GROUP_OPS(dense) = {
    .kind = {.name = "dense", .summary = "all invertible matrices", .formula = "n^2", .unprotected = true},
    .create = dense_create,
    .reset = dense_reset,
    .act = dense_act,
    .size = dense_size,
    .state = dense_state,
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
    .energy = dense_energy,
};
