/* Positive multiples of I, spec "scale": one step size that finds itself. The projection onto multiples of I is the
 * mean of the diagonal. */
#include "group/ops.h"
#include "la/la.h"

#include <math.h>

typedef struct scale {
    group base;
    real q;
} scale;

static const scale *as_scale(const group *self)
{
    return (const scale *)self;
}

static psgd_status scale_create(const group_args *args, group **created)
{
    *created = psgd__group_base(args, &scale_ops, sizeof(scale));
    if (!*created) return PSGD_ERR_NO_MEMORY;
    (*created)->mix = 1;
    return PSGD_OK;
}

static void scale_reset(group *self, double start)
{
    ((scale *)self)->q = (real)start;
}

static void scale_mul(const group *self, view X)
{
    la_view_scale(X, as_scale(self)->q);
}

static void scale_solve(const group *self, view X)
{
    la_view_scale(X, 1 / as_scale(self)->q);
}

static int64_t scale_size(const group *self)
{
    (void)self;
    return 1;
}

static void scale_state(group *self, group_state visit, void *data)
{
    visit(data, &((scale *)self)->q, 1);
}

static void scale_cost(const group *self, group_cost *cost)
{
    double all = (double)self->n * (double)self->fibres;
    cost->update_flops += 6 * all;
    cost->apply_flops += 2 * all;
}

static void scale_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    double sum = A.x ? la_view_energy(A) : 0;
    if (B.x) sum += sign * la_view_energy(B);
    R[0] = (real)((accumulate ? (double)R[0] : 0) + sum / (double)self->n);
}

static real scale_r_max(const group *self, const real *R)
{
    (void)self;
    return R[0] < 0 ? -R[0] : R[0];
}

static void scale_r_mul(const group *self, const real *R, view X)
{
    (void)self;
    la_view_scale(X, R[0]);
}

static void scale_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    for (int64_t i = 0; i < self->n; i++) {
        rows[i] += fabs((double)R[0]);
        columns[i] += fabs((double)R[0]);
    }
    *squares += (double)self->n * (double)R[0] * (double)R[0];
}

static bool scale_inside(const group *self, real c, const real *R)
{
    (void)self;
    return c * R[0] < 1;
}

static void scale_retract(group *self, real c, real *R)
{
    ((scale *)self)->q *= 1 - c * R[0];
}

static void scale_rescale(group *self, real c)
{
    ((scale *)self)->q *= c;
}

static double scale_energy(const group *self, bool inverse)
{
    double square = (double)as_scale(self)->q * (double)as_scale(self)->q;
    return (double)self->n * (inverse ? 1 / square : square);
}

static void scale_gram(const group *self, bool inverse, double weight, real *R)
{
    R[0] = (real)((double)R[0] + weight * scale_energy(self, inverse) / (double)self->n);
}

static void scale_range(const group *self, double *smallest, double *largest)
{
    *smallest = *largest = (double)as_scale(self)->q;
}

static group_side scale_pattern(const group *self, real *diagonal, real *side)
{
    (void)side;
    for (int64_t i = 0; diagonal && i < self->n; i++) diagonal[i] = as_scale(self)->q;
    return SIDE_NONE;
}

static void scale_pattern_r(const group *self, const double *diagonal, const double *side, real *R)
{
    double sum = 0;
    (void)side;
    for (int64_t i = 0; i < self->n; i++) sum += diagonal[i];
    R[0] = (real)(sum / (double)self->n);
}

const group_ops scale_ops = {
    .kind = {.name = "scale", .summary = "cI, c > 0", .formula = "1"},
    .create = scale_create,
    .reset = scale_reset,
    .mul = scale_mul,
    .mul_t = scale_mul,
    .solve = scale_solve,
    .solve_t = scale_solve,
    .size = scale_size,
    .state = scale_state,
    .cost = scale_cost,
    .r_size = scale_size,
    .project = scale_project,
    .r_max = scale_r_max,
    .r_spectral = scale_r_max,
    .r_mul = scale_r_mul,
    .r_mul_t = scale_r_mul,
    .r_sums = scale_r_sums,
    .inside = scale_inside,
    .retract = scale_retract,
    .rescale = scale_rescale,
    .gram = scale_gram,
    .energy = scale_energy,
    .range = scale_range,
    .pattern = scale_pattern,
    .pattern_r = scale_pattern_r,
};
