/* The group of I alone, spec "identity": a mode that is left as it is. No numbers, R = 0. */
#include "group/ops.h"
#include "la/la.h"

static psgd_status identity_create(const group_args *args, group **created)
{
    *created = psgd__group_base(args, &identity_ops, sizeof **created);
    return *created ? PSGD_OK : PSGD_ERR_NO_MEMORY;
}

static void identity_reset(group *self, double scale)
{
    (void)self;
    (void)scale;
}

static void identity_mul(const group *self, view X)
{
    (void)self;
    (void)X;
}

static int64_t identity_size(const group *self)
{
    (void)self;
    return 0;
}

static void identity_cost(const group *self, group_cost *cost)
{
    (void)self;
    (void)cost;
}

static void identity_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    (void)self;
    (void)A;
    (void)B;
    (void)sign;
    (void)accumulate;
    (void)R;
}

static real identity_r_max(const group *self, const real *R)
{
    (void)self;
    (void)R;
    return 0;
}

static void identity_r_mul(const group *self, const real *R, view X)
{
    (void)self;
    (void)R;
    la_view_scale(X, 0);
}

static void identity_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    (void)self;
    (void)R;
    (void)rows;
    (void)columns;
    (void)squares;
}

static bool identity_inside(const group *self, real c, const real *R)
{
    (void)self;
    (void)c;
    (void)R;
    return true;
}

static void identity_retract(group *self, real c, real *R)
{
    (void)self;
    (void)c;
    (void)R;
}

static void identity_gram(const group *self, bool inverse, double weight, real *R)
{
    (void)self;
    (void)inverse;
    (void)weight;
    (void)R;
}

static double identity_energy(const group *self, bool inverse)
{
    (void)inverse;
    return (double)self->n;
}

static void identity_range(const group *self, double *smallest, double *largest)
{
    (void)self;
    *smallest = *largest = 1;
}

static group_side identity_pattern(const group *self, real *diagonal, real *side)
{
    (void)side;
    for (int64_t i = 0; diagonal && i < self->n; i++) diagonal[i] = 1;
    return SIDE_NONE;
}

static void identity_pattern_r(const group *self, const double *diagonal, const double *side, real *R)
{
    (void)self;
    (void)diagonal;
    (void)side;
    (void)R;
}

const group_ops identity_ops = {
    .kind = {.name = "identity", .summary = "I: the mode is left as it is", .formula = "0"},
    .create = identity_create,
    .reset = identity_reset,
    .mul = identity_mul,
    .mul_t = identity_mul,
    .solve = identity_mul,
    .solve_t = identity_mul,
    .size = identity_size,
    .state = psgd__group_no_state,
    .cost = identity_cost,
    .r_size = identity_size,
    .project = identity_project,
    .r_max = identity_r_max,
    .r_spectral = identity_r_max,
    .r_mul = identity_r_mul,
    .r_mul_t = identity_r_mul,
    .r_sums = identity_r_sums,
    .inside = identity_inside,
    .retract = identity_retract,
    .gram = identity_gram,
    .energy = identity_energy,
    .range = identity_range,
    .pattern = identity_pattern,
    .pattern_r = identity_pattern_r,
};
