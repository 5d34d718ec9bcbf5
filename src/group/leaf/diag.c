/* Positive diagonal matrices, spec "diag".
 *
 * Q = diag(q), q > 0 (paper, "Diagonal preconditioner"). With the Fisher type criterion this learns by descent what
 * RMSProp and Adam average directly. n values, O(nk) per op on n x k fibres. */
#include "group/group.h"
#include "la/fused/fused.h"
#include "la/la.h"

#include <math.h>
#include <string.h>

static psgd_status diag_create(const group_args *args, group **created)
{
    group *self = psgd__group_base(args, &GROUP_OPS(diag), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    self->mix = 1;
    *created = self;
    return psgd__group_q(args, self, self->n);
}

/* Q' = Q. */
static void diag_act(const group *self, group_act act, view X)
{
    (act_inverse(act) ? la_divide_rows : la_scale_rows)(X, self->q);
}

/* q is read to whiten, read and written to retract. */
static void diag_cost(const group *self, group_cost *cost)
{
    double n = (double)self->n, all = n * (double)self->fibres;
    cost->update_flops += 6 * all + 3 * n;
    cost->update_bytes += 3 * n * sizeof(real);
    cost->apply_flops += 2 * all;
    cost->apply_bytes += n * sizeof(real);
}

static void diag_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    (void)self;
    la_row_energies(A, B, sign, accumulate, R);
}

static void diag_r_mul(const group *self, const real *R, bool transpose, view X)
{
    (void)self;
    (void)transpose;
    la_scale_rows(X, R);
}

static void diag_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    for (int64_t i = 0; i < self->n; i++) {
        rows[i] += fabs((double)R[i]);
        columns[i] += fabs((double)R[i]);
        *squares += (double)R[i] * (double)R[i];
    }
}

static bool diag_inside(const group *self, real c, const real *R)
{
    return la_below_one(self->n, c, R);
}

static void diag_retract(group *self, real c, real *R)
{
    la_retract_diagonal(self->n, c, R, self->q);
}

/* The square of an entry of M. */
static double square_of(double q, group_image M)
{
    double square = q * q;
    return M == IMAGE_INVERSE    ? 1 / square
           : M == IMAGE_IDENTITY ? 1
           : M == IMAGE_Q        ? square
           : M == IMAGE_P        ? square * square
                                 : square * square * square;
}

static void diag_gram(const group *self, group_image M, double weight, real *R)
{
    const real *q = self->q;
    for (int64_t i = 0; i < self->n; i++) R[i] = (real)((double)R[i] + weight * square_of((double)q[i], M));
}

static double diag_energy(const group *self, group_image M)
{
    double sum = 0;
    for (int64_t i = 0; i < self->n; i++) sum += square_of((double)self->q[i], M);
    return sum;
}

static void diag_range(const group *self, double *smallest, double *largest)
{
    const real *q = self->q;
    *smallest = *largest = (double)q[0];
    for (int64_t i = 1; i < self->n; i++) {
        *smallest = fmin(*smallest, (double)q[i]);
        *largest = fmax(*largest, (double)q[i]);
    }
}

static void fused_project(const group *self, const group_raw *raw, real *R, group_r *units)
{
    const real *q = self->q;
    double largest = (double)la_diag_fused(self->n, q, raw->h, raw->v, raw->damping, raw->sign, R);
    units[0] = (group_r){.R = R, .largest = largest, .spectral = largest};
}

static void fused_entries(group *self, const group_raw *raw, double step, double vanishing)
{
    la_diag_entries(self->n, raw->h, raw->v, raw->damping, step, vanishing, self->q);
}

static void fused_apply(const group *self, const real *x, real *y)
{
    la_diag_apply(self->n, self->q, x, y);
}

static group_border diag_border(const group *self, real *diagonal, real *side)
{
    (void)side;
    if (diagonal) memcpy(diagonal, self->q, (size_t)self->n * sizeof(real));
    return BORDER_NONE;
}

static void border_project(const group *self, const double *diagonal, const double *side, real *R)
{
    (void)side;
    for (int64_t i = 0; i < self->n; i++) R[i] = (real)diagonal[i];
}

static const group_fused diag_fused = {.apply = fused_apply,
                                       .project = fused_project,
                                       .entries = fused_entries,
                                       .border = diag_border,
                                       .border_project = border_project};

const group_ops GROUP_OPS(diag) = {
    .kind = {.name = "diag", .summary = "diagonal, positive", .formula = "n", .self_adjoint = true, .diagonal = true},
    .fused = &diag_fused,
    .create = diag_create,
    .reset = psgd__group_reset,
    .act = diag_act,
    .size = psgd__group_size,
    .cost = diag_cost,
    .r_size = psgd__group_r_size,
    .project = diag_project,
    .r_max = psgd__group_r_max,
    .r_spectral = psgd__group_r_max,
    .r_mul = diag_r_mul,
    .r_sums = diag_r_sums,
    .inside = diag_inside,
    .retract = diag_retract,
    .rescale = psgd__group_rescale,
    .gram = diag_gram,
    .energy = diag_energy,
    .range = diag_range,
};
