/* Building and freeing, applying, and reading Q: all that is typed but not part of an update. */
#include "group/composite/tiles.h"
#include "la/la.h"
#include "precond/update/tiles.h"
#include "precond/update/update.h"

#include <math.h>
#include <string.h>

enum { WIDEST = 512, PANEL = 16 }; /* factor whose diagonal is read, columns of I at a time */

/* What a unit inherits from the groups above it. */
typedef struct unit_place {
    int share;
    bool in_kron;
} unit_place;

/* Lists the units below a group in the order in which psgd__group_units visits them, from self->units[count] on; where
 * that is NULL only counts. Returns the new count. Factors of a kron without parameters do not grow. */
static int list_units(psgd_precond *self, group *here, unit_place place, int count)
{
    int factors = 0;
    if (!here->ops->units) {
        bool by_entry = self->by_entry && here->ops->kind.diagonal && !place.in_kron;
        int norm = by_entry ? NORM_ENTRY : self->settings.norm;
        if (!here->ops->kind.diagonal && norm == NORM_ENTRY) norm = NORM_MAX; /* it has no parameters */
        if (self->units) self->units[count] = (precond_unit){.group = here, .norm = norm, .share = place.share};
        return count + 1;
    }
    bool is_kron = here->ops->kind.sizes == SIZES_MULTIPLY;
    for (int i = 0; i < here->child_count; i++) factors += here->child[i]->ops->size(here->child[i]) > 0;
    if (is_kron && factors > 0) place.share *= factors;
    place.in_kron = place.in_kron || is_kron;
    for (int i = 0; i < here->child_count; i++) count = list_units(self, here->child[i], place, count);
    return count;
}

/* A diag that is not the factor of a kron is a direct sum of groups of size 1. */
static psgd_status check_entries(const group *here)
{
    bool splits = here->ops->kind.diagonal || here->ops->size(here) == 0;
    if (here->ops->units && here->ops->kind.sizes != SIZES_MULTIPLY) {
        for (int i = 0; i < here->child_count; i++) PSGD_TRY(check_entries(here->child[i]));
        return PSGD_OK;
    }
    if (splits) return PSGD_OK;
    return psgd__fail(
        PSGD_ERR_UNSUPPORTED,
        "norm entry is for diag and sums of diag, which split into groups of size 1; %s does not: use max",
        here->ops->kind.name);
}

static psgd_status create_units(psgd_precond *self)
{
    unit_place top = {.share = 1};
    if (self->settings.norm == NORM_ENTRY) PSGD_TRY(check_entries(self->root));
    self->unit_count = list_units(self, self->root, top, 0);
    self->units = psgd__alloc(self->context, self->unit_count, sizeof self->units[0]);
    if (!self->units) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the parts of a preconditioner");
    list_units(self, self->root, top, 0);
    return PSGD_OK;
}

/* One unit's R at a time, or where the group projects straight from (v, h) those of all units. */
static int64_t max_r_size(const psgd_precond *self)
{
    const group *root = self->root;
    int64_t max = 0, total = 0;
    for (int i = 0; i < self->unit_count; i++) {
        const group *unit = self->units[i].group;
        int64_t size = unit->ops->r_size(unit);
        total += size;
        if (size > max) max = size;
    }
    bool fused = root->fused && root->fused->project && !self->settings.integrate && !self->settings.unbiased;
    return fused ? total : max;
}

psgd_status precond_complete(psgd_precond *self)
{
    const precond_settings *set = &self->settings;
    const group *root = self->root;
    int64_t elements = self->n * set->pairs;
    PSGD_TRY(create_units(self));
    group_cost cost = {0};
    root->ops->cost(root, &cost);
    self->shared_flops = cost.shared_flops;

    self->r_size = max_r_size(self);
    self->at_A = psgd__work_reserve(self->work, elements, sizeof(real));
    self->at_B = psgd__work_reserve(self->work, set->integrate ? 0 : elements, sizeof(real));
    self->at_R = psgd__work_reserve(self->work, normaliser_needs_second(set->norm) ? 2 * self->r_size : self->r_size,
                                    sizeof(real));
    if (psgd__rule_at(set->rule)->images == IMAGES_OWN) {
        self->at_own = psgd__work_reserve(self->work, (set->integrate ? 1 : 2) * elements, sizeof(real));
    }
    if (!set->unbiased) return PSGD_OK;

    self->average = psgd__alloc(self->context, self->n, sizeof(real));
    return self->average ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the average of the gradient");
}

psgd_status PSGD_TYPED(psgd__precond_build)(psgd_precond *self, const spec_tree *tree)
{
    const precond_settings *set = &self->settings;
    int64_t elements;
    group *root = NULL;
    if (!psgd__mul_fits(self->n, set->pairs, &elements)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%lld pairs of %lld elements are more than can be counted",
                          (long long)set->pairs, (long long)self->n);
    }
    group_args args = {.context = self->context,
                       .pairs = set->pairs,
                       .integrate = set->integrate || set->rows == ROWS_EXACT,
                       .inverse_free = psgd__rule_is_inverse_free(psgd__rule_at(set->rule)),
                       .work = self->work,
                       .here = set->here};
    self->settings.here = NULL;
    PSGD_TRY(psgd__group_create(&args, tree, &root));
    self->root = root;
    if (psgd__tiles_grid(root)) return tiles_build(self, tree, &args);
    return precond_complete(self);
}

void PSGD_TYPED(psgd__precond_release)(psgd_precond *self)
{
    if (!self->is_tile) psgd__group_free(self->root);
}

void PSGD_TYPED(psgd__precond_reset)(psgd_precond *self, double scale)
{
    group *root = self->root;
    root->ops->reset(root, scale);
    guard_start(self);
    for (int k = 0; k < self->tile_count; k++) {
        if (self->tiles[k]) guard_start(self->tiles[k]);
    }
}

void PSGD_TYPED(psgd__precond_apply)(const psgd_precond *self, psgd_operator what, const void *x, void *y)
{
    const group *root = self->root;
    int times = what == PSGD_APPLY_P2 || what == PSGD_APPLY_P2_INVERSE ? 2 : 1;
    if (what <= PSGD_APPLY_P2 && root->fused && root->fused->apply) {
        root->fused->apply(root, x, y);
        if (times == 2) root->fused->apply(root, y, y);
        return;
    }
    const group_ops *ops = root->ops;
    view Y = view_rows(y, self->n, 1);
    if (x != y) memcpy(y, x, (size_t)self->n * sizeof(real));
    for (int i = 0; i < times; i++) {
        if (what <= PSGD_APPLY_P2) {
            psgd__group_square(root, Y);
            continue;
        }
        if (what == PSGD_APPLY_Q) ops->act(root, ACT_MUL, Y);
        if (what == PSGD_APPLY_QT) ops->act(root, ACT_MUL_T, Y);
        bool inverse = what == PSGD_APPLY_P_INVERSE || what == PSGD_APPLY_P2_INVERSE;
        if (inverse || what == PSGD_APPLY_QT_INVERSE) ops->act(root, ACT_SOLVE_T, Y);
        if (inverse || what == PSGD_APPLY_Q_INVERSE) ops->act(root, ACT_SOLVE, Y);
    }
}

psgd_status PSGD_TYPED(psgd__precond_criterion)(psgd_precond *self, const void *v, const void *h, double *value)
{
    whitened_pair w;
    if (self->tile_count) return tiles_criterion(self, v, h, value);
    PSGD_TRY(whiten_load(self, self->n, 1, v, h, &w));
    PSGD_TRY(whiten_images(self, IMAGES_WHITENED, 1, &w));
    double a = la_view_energy(w.pair.A), damping = self->settings.damping;
    if (self->settings.integrate) {
        double q = damping > 0 ? psgd__group_energy(self->root, IMAGE_Q) : 0;
        *value = ldexp(a, 2 * w.exponent) + damping * damping * q + psgd__group_energy(self->root, IMAGE_INVERSE);
    } else {
        *value = ldexp(a + la_view_energy(w.pair.B), 2 * w.exponent);
    }
    return PSGD_OK;
}

psgd_status PSGD_TYPED(psgd__precond_range)(const psgd_precond *self, double *smallest, double *largest)
{
    return psgd__group_range(self->root, smallest, largest);
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

typedef struct element_list {
    real *to; /* NULL: they are counted */
    int64_t count;
} element_list;

static void add_elements(void *data, real *x, int64_t count)
{
    element_list *list = data;
    if (list->to) memcpy(list->to + list->count, x, (size_t)count * sizeof(real));
    list->count += count;
}

int64_t PSGD_TYPED(psgd__precond_elements)(const psgd_precond *self, void *to)
{
    element_list list = {.to = to};
    psgd__group_elements(self->root, add_elements, &list);
    return list.count;
}

/* Min and max of the diagonal, from Q times the columns of I, a few at a time. */
static psgd_status diagonal(const group *self, double *min, double *max)
{
    int64_t n = self->n;
    real *panel = psgd__alloc(self->context, n * PANEL, sizeof(real));
    if (!panel) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the diagonal of %s", self->ops->kind.name);
    *min = HUGE_VAL;
    *max = -HUGE_VAL;
    for (int64_t from = 0; from < n; from += PANEL) {
        int64_t count = n - from < PANEL ? n - from : PANEL;
        memset(panel, 0, (size_t)(n * PANEL) * sizeof(real));
        for (int64_t j = 0; j < count; j++) panel[j * n + from + j] = 1;
        self->ops->act(self, ACT_MUL, view_rows(panel, n, count));
        for (int64_t j = 0; j < count; j++) {
            *min = fmin(*min, (double)panel[j * n + from + j]);
            *max = fmax(*max, (double)panel[j * n + from + j]);
        }
    }
    psgd__free(self->context, panel);
    return PSGD_OK;
}

psgd_status PSGD_TYPED(psgd__precond_factor_health)(const psgd_precond *self, int index, double health[3])
{
    const group *own = factor(self, index);
    double smallest, largest;
    PSGD_TRY(psgd__group_range(own, &smallest, &largest));
    health[0] = largest / smallest;
    health[1] = health[2] = NAN;
    if (own->mix <= 1 && own->ops->range) { /* diagonal, with positive entries */
        health[1] = smallest;
        health[2] = largest;
        return PSGD_OK;
    }
    return own->n <= WIDEST ? diagonal(own, &health[1], &health[2]) : PSGD_OK;
}
