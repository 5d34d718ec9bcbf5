/* Building and taking apart, applying, and looking at Q: all that is typed but not part of an update. */
#include "la/la.h"
#include "precond/update/whitened.h"
#include "precond/update/guard.h"
#include "precond/update/normaliser.h"

#include <math.h>
#include <string.h>

static psgd_status measure_unit(group *unit, const group_pair *pair, void *data)
{
    (void)pair;
    int64_t *max = data, size = unit->ops->r_size(unit);
    if (size > *max) *max = size;
    return PSGD_OK;
}

psgd_status PSGD_TYPED(psgd__precond_build)(psgd_precond *self, const spec_tree *tree)
{
    const precond_settings *set = &self->settings;
    int64_t tensors, r = 0;
    group *root = NULL;
    if (!psgd__mul_fits(self->n, set->pairs, &tensors)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%lld pairs of %lld numbers are more than can be counted",
                          (long long)set->pairs, (long long)self->n);
    }
    group_args args = {.context = self->context,
                       .pairs = set->pairs,
                       .integrate = set->integrate || set->rows == ROWS_EXACT,
                       .work = self->work};
    PSGD_TRY(psgd__group_create(&args, tree, &root));
    self->root = root;
    group_cost cost = {0};
    root->ops->cost(root, &cost);
    self->shared_flops = cost.shared_flops;

    group_pair empty = {.A = view_rows(NULL, self->n, set->pairs)};
    empty.B = empty.h = empty.v = empty.A;
    PSGD_TRY(psgd__group_units(root, &empty, measure_unit, &r));
    self->at_A = psgd__work_reserve(self->work, tensors, sizeof(real));
    self->at_B = psgd__work_reserve(self->work, set->integrate ? 0 : tensors, sizeof(real));
    bool one_pass = !set->integrate && !set->unbiased && root->ops->fused;
    self->fused = one_pass ? root->ops->fused_size(root) : 0;
    if (self->fused > r) r = self->fused;
    self->at_R = psgd__work_reserve(self->work, normaliser_needs_spare(set->norm) ? 2 * r : r, sizeof(real));
    if (!set->unbiased) return PSGD_OK;

    self->average = psgd__alloc(self->context, self->n, sizeof(real));
    return self->average ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the average of the gradient");
}

void PSGD_TYPED(psgd__precond_release)(psgd_precond *self)
{
    psgd__group_free(self->root);
}

void PSGD_TYPED(psgd__precond_reset)(psgd_precond *self, double scale)
{
    group *root = self->root;
    root->ops->reset(root, scale);
    guard_start(root);
}

static bool apply_at_once(const psgd_precond *self, double alpha, const real *x, bool add, real *y)
{
    const group *root = self->root;
    return !self->plain && root->ops->apply && root->ops->apply(root, (real)alpha, x, add, y);
}

void PSGD_TYPED(psgd__precond_descend)(const psgd_precond *self, double rate, const void *g, void *theta)
{
    if (apply_at_once(self, -rate, g, true, theta)) return;
    real *x = psgd__work_at(self->work, self->at_A);
    PSGD_TYPED(psgd__precond_apply)(self, PSGD_APPLY_P, g, x);
    la_axpy(self->n, (real)-rate, x, theta);
}

void PSGD_TYPED(psgd__precond_apply)(const psgd_precond *self, psgd_operator what, const void *x, void *y)
{
    const group *root = self->root;
    view X = view_rows(y, self->n, 1);
    int64_t n = self->n;
    if (what <= PSGD_APPLY_P2 && apply_at_once(self, 1, x, false, y)) {
        if (what == PSGD_APPLY_P2) apply_at_once(self, 1, y, false, y);
        return;
    }
    if (x != y) memcpy(y, x, (size_t)n * sizeof(real));
    int twice = what == PSGD_APPLY_P2 || what == PSGD_APPLY_P2_INVERSE ? 2 : 1;
    for (int i = 0; i < twice; i++) {
        switch (what) {
        case PSGD_APPLY_P:
        case PSGD_APPLY_P2:
            if (root->ops->square && !self->plain) {
                root->ops->square(root, X);
            } else {
                root->ops->mul(root, X);
                root->ops->mul_t(root, X);
            }
            break;
        case PSGD_APPLY_P_INVERSE:
        case PSGD_APPLY_P2_INVERSE:
            root->ops->solve_t(root, X);
            root->ops->solve(root, X);
            break;
        case PSGD_APPLY_Q:
            root->ops->mul(root, X);
            break;
        case PSGD_APPLY_QT:
            root->ops->mul_t(root, X);
            break;
        case PSGD_APPLY_Q_INVERSE:
            root->ops->solve(root, X);
            break;
        case PSGD_APPLY_QT_INVERSE:
            root->ops->solve_t(root, X);
            break;
        }
    }
}

psgd_status PSGD_TYPED(psgd__precond_criterion)(psgd_precond *self, const void *v, const void *h, double *value)
{
    formed f;
    PSGD_TRY(form_pairs(self, self->n, 1, v, h, &f));
    PSGD_TRY(form_images(self, 1, &f));
    double a = la_view_energy(f.pair.A), damping = self->settings.damping;
    if (self->settings.integrate) {
        double q = damping > 0 ? psgd__group_energy(self->root, false) : 0;
        *value = ldexp(a, 2 * f.exponent) + damping * damping * q + psgd__group_energy(self->root, true);
    } else {
        *value = ldexp(a + la_view_energy(f.pair.B), 2 * f.exponent);
    }
    return PSGD_OK;
}

psgd_status PSGD_TYPED(psgd__precond_condition)(const psgd_precond *self, double *condition)
{
    double smallest, largest;
    PSGD_TRY(psgd__group_range(self->root, &smallest, &largest));
    *condition = largest / smallest;
    return PSGD_OK;
}

static bool is_kron(const group *root)
{
    return root->ops->kind.sizes == SIZES_MULTIPLY;
}

int PSGD_TYPED(psgd__precond_factor_count)(const psgd_precond *self)
{
    const group *root = self->root;
    return is_kron(root) ? root->child_count : 1;
}

static const group *factor(const psgd_precond *self, int index)
{
    const group *root = self->root;
    return is_kron(root) ? root->child[index] : root;
}

int64_t PSGD_TYPED(psgd__precond_factor_size)(const psgd_precond *self, int index)
{
    return factor(self, index)->n;
}

void PSGD_TYPED(psgd__precond_factor)(const psgd_precond *self, int index, void *Q)
{
    psgd__group_to_dense(factor(self, index), Q);
}
