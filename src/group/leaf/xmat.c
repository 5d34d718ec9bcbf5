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

/* Row i of Q is (d_i, e_i), of Q^-T (d_j, -e_j) / det: their squares and the product with row j. */
static void gram_pair(const group *self, int64_t i, bool inverse, double *square, double *product)
{
    int64_t n = self->n, j = n - 1 - i;
    const real *d = self->q, *e = d + n;
    double a = (double)d[i], b = (double)e[i], c = (double)e[j], g = (double)d[j];
    if (i == j) {
        *square = inverse ? 1 / (a * a) : a * a;
        *product = 0;
    } else if (inverse) {
        double det = la_determinant(a, b, c, g);
        *square = (g / det) * (g / det) + (c / det) * (c / det);
        *product = -((g / det) * (b / det) + (c / det) * (a / det));
    } else {
        *square = a * a + b * b;
        *product = a * c + b * g;
    }
}

static void xmat_gram(const group *self, bool inverse, double weight, real *R)
{
    int64_t n = self->n;
    for (int64_t i = 0; i < n; i++) {
        double square, product;
        gram_pair(self, i, inverse, &square, &product);
        R[i] = (real)((double)R[i] + weight * square);
        R[n + i] = (real)((double)R[n + i] + weight * product);
    }
}

static double xmat_energy(const group *self, bool inverse)
{
    double sum = 0, square, product;
    for (int64_t i = 0; i < self->n; i++) {
        gram_pair(self, i, inverse, &square, &product);
        sum += square;
    }
    return sum;
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
             .unprotected = true},
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
};
