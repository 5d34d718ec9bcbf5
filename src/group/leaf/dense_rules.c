/* What update rules other than the paper's ask of a dense group: retractions without an inverse, on either side or
 * both, the rotation towards symmetric Q, both Gram sums at once, and the norm. A retraction is one product, 2 n^3
 * flops; one on both sides of a symmetric Q is 3 n^3, as half of the second product follows by symmetry; a rotation is
 * 3 n^3, as SS is symmetric. With a few fibres R has low rank and all but the rotation are O(n^2). */
#include "group/leaf/dense.h"
#include "group/leaf/lowrank.h"
#include "la/la.h"
#include "la/matrix/blas.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A copy of Q in the workspace. */
static real *copy_q(const dense *d)
{
    real *next = psgd__work_at(d->base.work, d->next);
    la_copy(d->base.n * d->base.n, d->q, next);
    return next;
}

/* Q <- Q - c Y S Y'Q, or with right Q - c QY S Y', for R = Y S Y'. */
static void retract_few(dense *d, real c, const real *R, bool right)
{
    int64_t n = d->base.n;
    int m = lowrank_count(R);
    if (m == 0) return;
    const real *Y = lowrank_vector(R, n, 0); /* m x n */
    real *W = psgd__work_at(d->base.work, d->panel);
    la_gemm(false, right, m, n, n, 1, Y, n, d->q, n, 0, W, n); /* Y'Q, or (QY)' */
    for (int k = 0; k < m; k++) la_scale(n, -c * lowrank_sign(R, k), W + k * n);
    la_gemm(true, false, n, n, m, 1, right ? W : Y, n, right ? Y : W, n, 1, d->q, n);
}

void dense_retract_left(group *self, real c, real *R)
{
    dense *d = (dense *)self;
    int64_t n = self->n;
    if (d->few) {
        retract_few(d, c, R, false);
    } else {
        la_gemm(false, false, n, n, n, -c, R, n, copy_q(d), n, 1, d->q, n);
    }
}

void dense_retract_right(group *self, real c, real *R)
{
    dense *d = (dense *)self;
    int64_t n = self->n;
    if (d->few) {
        retract_few(d, c, R, true);
    } else {
        la_gemm(false, false, n, n, n, -c, copy_q(d), n, R, n, 1, d->q, n);
    }
}

/* next <- (I - c R) Q, then the upper triangle of Q <- next (I - c R). */
void dense_retract_both(group *self, real c, real *R)
{
    dense *d = (dense *)self;
    int64_t n = self->n;
    if (d->few) {
        retract_few(d, c, R, false);
        retract_few(d, c, R, true);
        la_symmetrise(n, d->q);
    } else {
        real *next = copy_q(d);
        la_gemm(false, false, n, n, n, -c, R, n, d->q, n, 1, next, n);
        la_copy(n * n, next, d->q);
        la_sym_product(n, -c, next, R, d->q);
        la_mirror(n, d->q);
    }
}

/* Each Gram matrix is computed once. */
void dense_project_both(const group *self, view A, view B, real *R, real *S)
{
    int64_t n = self->n;
    view none = view_over(A, NULL);
    if (as_dense(self)->few) {
        self->ops->project(self, A, B, -1, false, R);
        self->ops->project(self, A, B, 1, false, S);
        return;
    }
    la_sym_outer(A, none, 1, false, false, R);
    la_mirror(n, R);
    if (B.x) {
        la_sym_outer(B, none, 1, false, false, S);
        la_mirror(n, S);
        la_sum_difference(n * n, R, S);
    } else {
        la_copy(n * n, R, S);
    }
}

void dense_symmetrise(group *self)
{
    la_symmetrise(self->n, as_dense(self)->q);
}

/* S stays in next and SS in turned. As S is skew, SS is symmetric, and tr SQ = (norm/2) ||S||_F^2. */
double dense_skew_part(const group *self, const rng_stream *draw, double *x, double *y)
{
    const dense *d = as_dense(self);
    int64_t n = self->n;
    real *S = psgd__work_at(self->work, d->next), *SS = psgd__work_at(self->work, d->turned);
    la_skew(n, d->q, S);
    if (la_max_abs(n * n, S) <= (real)REAL_EPSILON * la_max_abs(n * n, d->q)) return 0;
    double norm = la_norm_estimate(n, S, draw, psgd__work_at(self->work, d->estimate));
    la_scale(n * n, (real)(1 / norm), S);
    memset(SS, 0, (size_t)(n * n) * sizeof *SS);
    la_sym_product(n, 1, S, S, SS);
    la_mirror(n, SS);
    *x = norm / 2 * la_dot(n * n, S, S);
    *y = la_dot(n * n, SS, d->q);
    return norm;
}

/* Q <- Q + (tS + (t^2/2) SS) Q: one product, as SS is there. */
void dense_rotate(group *self, double norm, double t)
{
    (void)norm;
    dense *d = (dense *)self;
    int64_t n = self->n;
    real *S = psgd__work_at(self->work, d->next), *old = psgd__work_at(self->work, d->turned);
    la_scale(n * n, (real)t, S);
    la_axpy(n * n, (real)(t * t / 2), old, S); /* SS is in the place of old so far */
    la_copy(n * n, d->q, old);
    la_gemm(false, false, n, n, n, 1, S, n, old, n, 1, d->q, n);
}

/* ||YY'||_2 = ||Y'Y||_2 for a few vectors, by squaring Y'Y until only its largest eigenvalue is left. */
static double norm_few(const group *self, const real *R)
{
    int64_t n = self->n;
    int m = lowrank_count(R);
    const real *Y = lowrank_vector(R, n, 0);
    double M[LOWRANK_MAX][LOWRANK_MAX], next[LOWRANK_MAX][LOWRANK_MAX], norm = 1, power = 1;
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < m; j++) M[i][j] = la_dot(n, Y + i * n, Y + j * n);
    }
    for (int pass = 0; pass < 60; pass++) { /* M^(2^60) has rank one to rounding unless eigenvalues are equal */
        double max = 0;
        for (int i = 0; i < m; i++) max = fmax(max, M[i][i]);
        if (!(max > 0)) return 0;
        norm *= pow(max, power);
        power /= 2;
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < m; j++) M[i][j] /= max;
        }
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < m; j++) {
                next[i][j] = 0;
                for (int k = 0; k < m; k++) next[i][j] += M[i][k] * M[k][j];
            }
        }
        memcpy(M, next, sizeof M);
    }
    return norm;
}

double dense_r_norm(const group *self, const real *R, const rng_stream *draw)
{
    const dense *d = as_dense(self);
    if (!d->few) return la_norm_estimate(self->n, R, draw, psgd__work_at(self->work, d->estimate));
    return lowrank_count(R) == 2 ? (double)self->ops->r_spectral(self, R) : norm_few(self, R);
}
