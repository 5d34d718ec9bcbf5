/* Diagonal plus antidiagonal, spec "xmat".
 *
 * Entry i only meets entry j = n - 1 - i, so Q is a set of 2 x 2 matrices [d_i e_i; e_j d_j], and a single entry in the
 * middle where n is odd. The group is the invertible ones; the normaliser max does not keep them invertible. 2n values
 * (2n - 1 for odd n), stored as d [n], e [n]; where n is odd the middle of e is 0. O(nk) per op on n x k fibres. */
#include "group/group.h"
#include "la/fused/fused.h"
#include "la/la.h"

#include <float.h>
#include <math.h>

static psgd_status xmat_create(const group_args *args, group **created)
{
    group *self = psgd__group_base(args, &GROUP_OPS(xmat), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    self->mix = 2;
    *created = self;
    return psgd__group_q(args, self, 2 * self->n);
}

static void xmat_act(const group *self, group_act act, view X)
{
    (act_inverse(act) ? la_cross_solve : la_cross_mul)(X, self->q, self->q + self->n, act_transposed(act));
}

static int64_t xmat_size(const group *self)
{
    return 2 * self->n - self->n % 2;
}

static void xmat_cost(const group *self, group_cost *cost)
{
    double n = (double)self->n, all = n * (double)self->fibres;
    cost->update_flops += 18 * all + 8 * n;
    cost->update_bytes += 6 * n * sizeof(real);
    cost->apply_flops += 6 * all;
    cost->apply_bytes += 2 * n * sizeof(real);
}

static void xmat_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    la_row_energies(A, B, sign, accumulate, R);
    la_mirror_products(A, B, sign, accumulate, R + self->n);
    if (self->n % 2) R[self->n + self->n / 2] = 0;
}

/* The larger singular value of [a b; c d], exactly: half the sum of two lengths. */
static double spectral_2x2(double a, double b, double c, double d)
{
    return 0.5 * (hypot(a + d, b - c) + hypot(a - d, b + c));
}

static real xmat_r_spectral(const group *self, const real *R)
{
    int64_t n = self->n;
    const real *e = R + n;
    double max = n % 2 ? fabs((double)R[n / 2]) : 0;
    for (int64_t i = 0; i < n / 2; i++) {
        int64_t j = n - 1 - i;
        max = fmax(max, spectral_2x2((double)R[i], (double)e[i], (double)e[j], (double)R[j]));
    }
    return (real)max;
}

static void xmat_r_mul(const group *self, const real *R, bool transpose, view X)
{
    la_cross_mul(X, R, R + self->n, transpose);
}

static void xmat_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    int64_t n = self->n;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)R[i], e = (double)R[n + i];
        rows[i] += fabs(d) + fabs(e);
        columns[i] += fabs(d);
        columns[n - 1 - i] += fabs(e);
        *squares += d * d + e * e;
    }
}

static double determinant(real a, real b, real c, real d)
{
    return la_determinant((double)a, (double)b, (double)c, (double)d);
}

static bool xmat_inside(const group *self, real c, const real *R)
{
    int64_t n = self->n;
    const real *r = R, *e = R + n;
    bool inside = true;
    for (int64_t i = 0; i < (n + 1) / 2; i++) {
        int64_t j = n - 1 - i;
        real a = 1 - c * r[i], d = 1 - c * r[j];
        double det = i == j ? (double)a : determinant(a, -c * e[i], -c * e[j], d);
        inside = inside && fabs(det) > 4 * REAL_EPSILON;
    }
    return inside;
}

static void xmat_retract(group *self, real c, real *R)
{
    la_cross_step(self->n, c, R, self->q);
}

static void xmat_range(const group *self, double *smallest, double *largest)
{
    int64_t n = self->n;
    const real *d = self->q, *e = d + n;
    *smallest = HUGE_VAL;
    *largest = 0;
    for (int64_t i = 0; i < (n + 1) / 2; i++) {
        int64_t j = n - 1 - i;
        double max = fabs((double)d[i]), min = max;
        if (i != j) {
            max = spectral_2x2((double)d[i], (double)e[i], (double)e[j], (double)d[j]);
            min = fabs(determinant(d[i], e[i], e[j], d[j])) / max;
        }
        *largest = fmax(*largest, max);
        *smallest = fmin(*smallest, min);
    }
}

/* Rows i and j = n - 1 - i meet in 2 x 2 matrices [ii ij; ji jj]. */
typedef struct two {
    double ii, ij, ji, jj;
} two;

static two product(two x, two y)
{
    return (two){.ii = x.ii * y.ii + x.ij * y.ji,
                 .ij = x.ii * y.ij + x.ij * y.jj,
                 .ji = x.ji * y.ii + x.jj * y.ji,
                 .jj = x.ji * y.ij + x.jj * y.jj};
}

/* The part of M that row i is in. */
static two image(const group *self, int64_t i, group_image M)
{
    int64_t j = self->n - 1 - i;
    const real *d = self->q, *e = d + self->n;
    two Q = {(double)d[i], (double)e[i], (double)e[j], (double)d[j]};
    if (M == IMAGE_IDENTITY) return (two){.ii = 1, .jj = 1};
    if (M == IMAGE_Q) return Q;
    if (M == IMAGE_INVERSE) {
        double det = la_determinant(Q.ii, Q.ij, Q.ji, Q.jj);
        return (two){.ii = Q.jj / det, .ij = -Q.ji / det, .ji = -Q.ij / det, .jj = Q.ii / det};
    }
    two P = product((two){Q.ii, Q.ji, Q.ij, Q.jj}, Q);
    return M == IMAGE_P ? P : product(Q, P);
}

/* The square of row i of M and its product with row j; a middle entry stands alone. */
static void gram_pair(const group *self, int64_t i, group_image M, double *square, double *mixed)
{
    if (i == self->n - 1 - i) {
        static const int powers[] = {
            [IMAGE_INVERSE] = -2, [IMAGE_IDENTITY] = 0, [IMAGE_Q] = 2, [IMAGE_P] = 4, [IMAGE_QP] = 6};
        *square = pow((double)self->q[i], powers[M]);
        *mixed = 0;
        return;
    }
    two m = image(self, i, M);
    *square = m.ii * m.ii + m.ij * m.ij;
    *mixed = m.ii * m.ji + m.ij * m.jj;
}

static void xmat_gram(const group *self, group_image M, double weight, real *R)
{
    int64_t n = self->n;
    for (int64_t i = 0; i < n; i++) {
        double square, mixed;
        gram_pair(self, i, M, &square, &mixed);
        R[i] = (real)((double)R[i] + weight * square);
        R[n + i] = (real)((double)R[n + i] + weight * mixed);
    }
}

static double xmat_energy(const group *self, group_image M)
{
    double sum = 0, square, mixed;
    for (int64_t i = 0; i < self->n; i++) {
        gram_pair(self, i, M, &square, &mixed);
        sum += square;
    }
    return sum;
}

/* Q <- Q (I - c R): [d_i e_i; e_j d_j] times I - c [r_i s_i; s_j r_j]. */
static void xmat_retract_right(group *self, real c, real *R)
{
    int64_t n = self->n;
    real *d = self->q, *e = d + n, *r = R, *s = R + n;
    for (int64_t i = 0; i < n / 2; i++) {
        int64_t j = n - 1 - i;
        real di = d[i], ei = e[i], dj = d[j], ej = e[j];
        d[i] = di - c * (di * r[i] + ei * s[j]);
        e[i] = ei - c * (di * s[i] + ei * r[j]);
        e[j] = ej - c * (ej * r[i] + dj * s[j]);
        d[j] = dj - c * (ej * s[i] + dj * r[j]);
    }
    if (n % 2) d[n / 2] -= c * d[n / 2] * r[n / 2];
}

static void xmat_symmetrise(group *self)
{
    int64_t n = self->n;
    real *e = self->q + n;
    for (int64_t i = 0; i < n / 2; i++) e[i] = e[n - 1 - i] = (e[i] + e[n - 1 - i]) / 2;
}

/* S is [0 s; -s 0] with s = (e_j - e_i) / norm: tr SQ is s (e_j - e_i), and SS is -s^2 I. */
static double xmat_skew_part(const group *self, const rng_stream *draw, double *x, double *y)
{
    (void)draw;
    int64_t n = self->n;
    const real *d = self->q, *e = d + n;
    double norm = 0;
    *x = *y = 0;
    for (int64_t i = 0; i < n / 2; i++) norm = fmax(norm, fabs((double)e[n - 1 - i] - (double)e[i]));
    if (norm <= REAL_EPSILON * (double)la_max_abs(2 * n, self->q)) return 0;
    for (int64_t i = 0; i < n / 2; i++) {
        double s = ((double)e[n - 1 - i] - (double)e[i]) / norm;
        *x += s * s * norm;
        *y -= s * s * ((double)d[i] + (double)d[n - 1 - i]);
    }
    return norm;
}

static void xmat_rotate(group *self, double norm, double t)
{
    int64_t n = self->n;
    real *d = self->q, *e = d + n;
    for (int64_t i = 0; i < n / 2; i++) {
        int64_t j = n - 1 - i;
        double di = (double)d[i], ei = (double)e[i], dj = (double)d[j], ej = (double)e[j];
        double s = t * ((ej - ei) / norm), keep = 1 - s * s / 2;
        d[i] = (real)(keep * di + s * ej);
        e[i] = (real)(keep * ei + s * dj);
        e[j] = (real)(keep * ej - s * di);
        d[j] = (real)(keep * dj - s * ei);
    }
}

static void fused_project(const group *self, const group_raw *raw, real *R, group_r *units)
{
    real largest, spectral;
    la_cross_take(self->n, self->q, raw->h, raw->v, raw->damping, raw->sign, R, &largest, &spectral);
    units[0] = (group_r){.R = R, .largest = (double)largest, .spectral = (double)spectral};
}

static void fused_apply(const group *self, const real *x, real *y)
{
    la_cross_apply(self->n, self->q, x, y);
}

static const group_fused xmat_fused = {.apply = fused_apply, .project = fused_project};

const group_ops GROUP_OPS(xmat) = {
    .kind = {.name = "xmat",
             .summary = "diagonal plus antidiagonal",
             .formula = "2n (2n - 1 if n is odd)",
             .unprotected = true,
             .self_adjoint = true},
    .fused = &xmat_fused,
    .create = xmat_create,
    .reset = psgd__group_reset,
    .act = xmat_act,
    .size = xmat_size,
    .cost = xmat_cost,
    .r_size = psgd__group_r_size,
    .project = xmat_project,
    .r_max = psgd__group_r_max,
    .r_spectral = xmat_r_spectral,
    .r_mul = xmat_r_mul,
    .r_sums = xmat_r_sums,
    .inside = xmat_inside,
    .retract = xmat_retract,
    .rescale = psgd__group_rescale,
    .gram = xmat_gram,
    .energy = xmat_energy,
    .range = xmat_range,
    .retract_right = xmat_retract_right,
    .symmetrise = xmat_symmetrise,
    .skew_part = xmat_skew_part,
    .rotate = xmat_rotate,
};
