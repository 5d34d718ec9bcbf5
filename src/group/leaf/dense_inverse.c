/* The inverse of a dense Q: kept by Woodbury's formula or LU with every retraction, or computed where updates need
 * none. */
#include "group/leaf/dense.h"
#include "group/leaf/lowrank.h"
#include "la/la.h"
#include "la/matrix/blas.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Q^-1 by LU into the workspace; false where Q is singular. */
static bool invert(const dense *d, real *to)
{
    int64_t n = d->base.n;
    memcpy(to, d->q, (size_t)(n * n) * sizeof(real));
    if (!la_invert(n, to, d->pivots, psgd__work_at(d->base.work, d->panel))) return false;
    return isfinite((double)la_max_abs(n * n, to));
}

/* Q^-1, kept or computed; NaN where Q is singular. */
const real *dense_inverse_of(const dense *d)
{
    if (d->inverse) return d->inverse;
    int64_t n = d->base.n;
    real *next = psgd__work_at(d->base.work, d->next);
    bool regular = invert(d, next);
    for (int64_t i = 0; !regular && i < n * n; i++) next[i] = (real)NAN;
    return next;
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
    real *next = psgd__work_at(d->base.work, d->next);
    if (!invert(d, next)) return false;
    memcpy(d->inverse, next, (size_t)(d->base.n * d->base.n) * sizeof(real));
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
bool dense_inside(const group *self, real c, const real *R)
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
void dense_retract_inverse(group *self, real c, real *R)
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
        dense_mul_in_place(self, d->q, true, view_rows(R, n, n));
        la_axpy(n * n, -c, R, d->q);
        dense_mul_in_place(self, psgd__work_at(self->work, d->next), true, view_rows(d->inverse, n, n));
    }
    double limit = 8 * d->fresh + 8 * sqrt((double)n) * REAL_EPSILON;
    if (residual(d, probe) > limit && refresh(d)) d->fresh = residual(d, probe);
}
