/* Multiples of I, specs "scale" (positive) and "identity".
 *
 *     Q = qI;  Pi(S) = (tr S / n) I
 *
 * scale is one step size that adapts itself. identity fixes q = 1: its fibres stay as they are, and R = 0 has no
 * values. O(nk) per op on n x k fibres. */
#include "group/group.h"
#include "la/la.h"

#include <math.h>

typedef struct scale {
    group base;
    bool fixed;
    real q;
} scale;

static const scale *as_scale(const group *self)
{
    return (const scale *)self;
}

static psgd_status scale_create(const group_args *args, group **created)
{
    *created = psgd__group_base(args, &GROUP_OPS(scale), sizeof(scale));
    if (!*created) return PSGD_ERR_NO_MEMORY;
    (*created)->mix = 1;
    return PSGD_OK;
}

static psgd_status identity_create(const group_args *args, group **created)
{
    scale *self = psgd__group_base(args, &GROUP_OPS(identity), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    self->fixed = true;
    *created = &self->base;
    return PSGD_OK;
}

static void scale_reset(group *self, double start)
{
    ((scale *)self)->q = as_scale(self)->fixed ? 1 : (real)start;
}

/* Q' = Q. */
static void scale_act(const group *self, group_act act, view X)
{
    real q = as_scale(self)->q;
    if (!as_scale(self)->fixed) la_view_scale(X, act_inverse(act) ? 1 / q : q);
}

static int64_t scale_size(const group *self)
{
    return !as_scale(self)->fixed;
}

static void scale_state(group *self, group_state visit, void *data)
{
    if (!as_scale(self)->fixed) visit(data, &((scale *)self)->q, 1);
}

static void scale_cost(const group *self, group_cost *cost)
{
    double all = as_scale(self)->fixed ? 0 : (double)self->n * (double)self->fibres;
    cost->update_flops += 6 * all;
    cost->apply_flops += 2 * all;
}

static void scale_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    if (as_scale(self)->fixed) return;
    double sum = A.x ? la_view_energy(A) : 0;
    if (B.x) sum += sign * la_view_energy(B);
    R[0] = (real)((accumulate ? (double)R[0] : 0) + sum / (double)self->n);
}

/* R = rI; identity's R has no values to read. */
static real r_of(const group *self, const real *R)
{
    return as_scale(self)->fixed ? 0 : R[0];
}

static real scale_r_max(const group *self, const real *R)
{
    real r = r_of(self, R);
    return r < 0 ? -r : r;
}

static void scale_r_mul(const group *self, const real *R, bool transpose, view X)
{
    (void)transpose;
    la_view_scale(X, r_of(self, R));
}

static void scale_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    double r = (double)r_of(self, R);
    for (int64_t i = 0; i < self->n; i++) {
        rows[i] += fabs(r);
        columns[i] += fabs(r);
    }
    *squares += (double)self->n * r * r;
}

static bool scale_inside(const group *self, real c, const real *R)
{
    return c * r_of(self, R) < 1;
}

static void scale_retract(group *self, real c, real *R)
{
    ((scale *)self)->q *= 1 - c * r_of(self, R);
}

static void scale_rescale(group *self, real c)
{
    ((scale *)self)->q *= c;
}

static double scale_energy(const group *self, group_image M)
{
    static const int powers[] = {
        [IMAGE_INVERSE] = -2, [IMAGE_IDENTITY] = 0, [IMAGE_Q] = 2, [IMAGE_P] = 4, [IMAGE_QP] = 6};
    return (double)self->n * pow((double)as_scale(self)->q, powers[M]);
}

static void scale_gram(const group *self, group_image M, double weight, real *R)
{
    if (as_scale(self)->fixed) return;
    R[0] = (real)((double)R[0] + weight * scale_energy(self, M) / (double)self->n);
}

static void scale_range(const group *self, double *smallest, double *largest)
{
    *smallest = *largest = (double)as_scale(self)->q;
}

static group_border scale_border(const group *self, real *diagonal, real *side)
{
    (void)side;
    for (int64_t i = 0; diagonal && i < self->n; i++) diagonal[i] = as_scale(self)->q;
    return BORDER_NONE;
}

static void scale_border_project(const group *self, const double *diagonal, const double *side, real *R)
{
    double sum = 0;
    (void)side;
    if (as_scale(self)->fixed) return;
    for (int64_t i = 0; i < self->n; i++) sum += diagonal[i];
    R[0] = (real)(sum / (double)self->n);
}

static const group_fused scale_fused = {.border = scale_border, .border_project = scale_border_project};

static double identity_fixed(const group *self, view X)
{
    (void)self;
    return la_view_energy(X);
}

#define SCALE_OPS                                                                                                      \
    .fused = &scale_fused, .reset = scale_reset, .act = scale_act, .size = scale_size, .state = scale_state,           \
    .cost = scale_cost, .r_size = scale_size, .project = scale_project, .r_max = scale_r_max,                          \
    .r_spectral = scale_r_max, .r_mul = scale_r_mul, .r_sums = scale_r_sums, .inside = scale_inside,                   \
    .retract = scale_retract, .gram = scale_gram, .energy = scale_energy, .range = scale_range

const group_ops GROUP_OPS(scale) = {
    .kind = {.name = "scale", .summary = "cI, c > 0", .formula = "1", .self_adjoint = true},
    .create = scale_create,
    .rescale = scale_rescale,
    SCALE_OPS,
};

const group_ops GROUP_OPS(identity) = {
    .kind = {.name = "identity", .summary = "the identity matrix", .formula = "0", .self_adjoint = true},
    .create = identity_create,
    .fixed = identity_fixed,
    SCALE_OPS,
};
