/* What all groups share: their tables, building a tree from a spec, freeing it, and defaults for what a group may leave
 * out. */
#include "group/group.h"
#include "la/matrix/blas.h"
#include "la/la.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { PANEL = 32 }; /* columns of I that the defaults take at a time */

#define GROUP_OPS_ADDRESS(name) &GROUP_OPS(name),
static const group_ops *const builtin[] = {BUILTIN_GROUPS(GROUP_OPS_ADDRESS)};

const group_kind *PSGD_TYPED(psgd__builtin_kind)(int index)
{
    return &builtin[index]->kind;
}

const group_ops *psgd__group_ops_at(const psgd_context *context, int index)
{
    return index < BUILTIN_COUNT ? builtin[index] : psgd__user_at(context, index - BUILTIN_COUNT)->ops[REAL_DTYPE];
}

void *psgd__group_base(const group_args *args, const group_ops *ops, size_t bytes)
{
    group *self = psgd__alloc(args->context, (int64_t)bytes, 1);
    if (!self) {
        psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %s of size %lld", ops->kind.name, (long long)args->spec->n);
        return NULL;
    }
    self->ops = ops;
    self->fused = ops->fused;
    self->context = args->context;
    self->n = self->mix = args->spec->n;
    self->fibres = args->fibres;
    self->pairs = args->pairs;
    self->integrate = args->integrate;
    self->inverse_free = args->inverse_free;
    self->extra = args->extra || !args->integrate ? args->extra : 2 * self->n;
    self->work = args->work;
    bool closed = ops->gram && ops->energy && !ops->fixed;
    if (args->integrate && ops->project && !closed) psgd__group_reserve_panel(self);
    return self;
}

void psgd__group_reserve_panel(group *self)
{
    self->panel = psgd__work_reserve(self->work, self->n * PANEL, sizeof(real));
}

psgd_status psgd__group_array(const group_args *args, void *self, int64_t count, size_t size, void *array)
{
    group *owner = self;
    void *memory = NULL;
    int64_t bytes;
    int slot = 0;
    while (owner->owned[slot]) slot++;
    bool countable = psgd__mul_fits(count, (int64_t)size, &bytes) && psgd__add_fits(owner->bytes, bytes, &bytes);
    if (countable && !args->dry) memory = psgd__alloc(args->context, count, size);
    if (!countable || (!memory && !args->dry)) {
        int64_t n = owner->n;
        const char *name = owner->ops->kind.name;
        psgd__group_free(owner);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %s of size %lld: it needs %.3g GB", name, (long long)n,
                          (double)count * (double)size / 1e9);
    }
    owner->owned[slot] = memory;
    owner->bytes = bytes;
    memcpy(array, &memory, sizeof memory);
    return PSGD_OK;
}

psgd_status psgd__group_reals(const group_args *args, void *self, int64_t count, real **array)
{
    return psgd__group_array(args, self, count, sizeof(real), array);
}

psgd_status psgd__group_q(const group_args *args, group *self, int64_t count)
{
    self->q_size = count;
    return psgd__group_reals(args, self, count, &self->q);
}

void psgd__group_reserve_sums(group *self)
{
    self->sums = psgd__work_reserve(self->work, 2 * self->n, sizeof(double));
}

real psgd__r_spectral(const group *self, const real *R)
{
    double *rows = psgd__work_at(self->work, self->sums), *columns = rows + self->n, squares = 0;
    memset(rows, 0, (size_t)(2 * self->n) * sizeof(double));
    self->ops->r_sums(self, R, rows, columns, &squares);
    double max_row = 0, max_column = 0;
    for (int64_t i = 0; i < self->n; i++) {
        max_row = fmax(max_row, rows[i]);
        max_column = fmax(max_column, columns[i]);
    }
    return (real)fmin(sqrt(squares), sqrt(max_row) * sqrt(max_column));
}

void psgd__group_free(group *self)
{
    if (!self) return;
    for (int i = 0; i < self->child_count; i++) psgd__group_free(self->child[i]);
    for (int i = 0; i < (int)(sizeof self->owned / sizeof self->owned[0]); i++)
        psgd__free(self->context, self->owned[i]);
    psgd__free(self->context, self->child);
    psgd__free(self->context, self);
}

/* A group has at most a quarter as many parameters as bytes, so these are countable too. */
static psgd_status add_up_bytes(group *self)
{
    self->total_bytes = self->bytes;
    for (int i = 0; i < self->child_count; i++) {
        if (psgd__add_fits(self->total_bytes, self->child[i]->total_bytes, &self->total_bytes)) continue;
        psgd_status status = psgd__fail(PSGD_ERR_NO_MEMORY, "%s of size %lld needs more bytes than can be counted",
                                        self->ops->kind.name, (long long)self->n);
        psgd__group_free(self);
        return status;
    }
    return PSGD_OK;
}

/* t stands for no group of its own: it transposes what is below it. */
psgd_status psgd__group_part(const group_args *args, group **created)
{
    group_args inner = *args;
    while (inner.spec->kind->sizes == SIZES_SAME) {
        inner.spec = inner.spec->first;
        inner.transposed = !inner.transposed;
    }
    const group_ops *ops = psgd__group_ops_at(args->context, inner.spec->kind_index);
    PSGD_TRY(ops->create(&inner, created));
    return add_up_bytes(*created);
}

psgd_status psgd__group_create(const group_args *args, const spec_tree *tree, group **created)
{
    group_args root = *args;
    root.spec = tree->root;
    root.fibres = 1;
    return psgd__group_part(&root, created);
}

/* The children of a kron see the other modes as fibres. */
psgd_status psgd__group_parts(const group_args *args, group *self, int64_t extra)
{
    group_args part = *args;
    part.extra = extra;
    self->child = psgd__alloc(args->context, args->spec->child_count, sizeof self->child[0]);
    psgd_status status = self->child
                             ? PSGD_OK
                             : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the parts of a %s", self->ops->kind.name);
    for (part.spec = args->spec->first; part.spec && status == PSGD_OK; part.spec = part.spec->next) {
        bool modes = self->ops->kind.sizes == SIZES_MULTIPLY;
        part.fibres = modes ? args->fibres * (args->spec->n / part.spec->n) : args->fibres;
        status = psgd__group_part(&part, &self->child[self->child_count]);
        if (status == PSGD_OK) self->child_count++;
    }
    if (status != PSGD_OK) psgd__group_free(self);
    return status;
}

bool psgd__group_can_rescale(const group *self)
{
    int can = 0;
    for (int i = 0; i < self->child_count; i++) can += psgd__group_can_rescale(self->child[i]);
    bool one_will_do = self->ops->kind.sizes == SIZES_MULTIPLY;
    return self->ops->rescale && (one_will_do ? can > 0 : can == self->child_count);
}

psgd_status psgd__group_units(group *self, const group_pair *pair, group_unit visit, void *data)
{
    return self->ops->units ? self->ops->units(self, pair, visit, data) : visit(self, pair, data);
}

void psgd__group_whiten(const group *self, view A, view B)
{
    if (self->fused && self->fused->whiten) {
        self->fused->whiten(self, A, B);
        return;
    }
    self->ops->act(self, ACT_MUL, A);
    self->ops->act(self, ACT_SOLVE_T, B);
}

void psgd__group_square(const group *self, view X)
{
    if (self->fused && self->fused->square) {
        self->fused->square(self, X);
        return;
    }
    self->ops->act(self, ACT_MUL, X);
    self->ops->act(self, ACT_MUL_T, X);
}

/* Columns from .. from + PANEL - 1, as far as they exist, of M, as rows of a panel in the workspace. */
static view column_panel(const group *self, group_image M, int64_t from)
{
    int64_t count = self->n - from < PANEL ? self->n - from : PANEL;
    real *panel = psgd__work_at(self->work, self->panel);
    memset(panel, 0, (size_t)(count * self->n) * sizeof(real));
    for (int64_t i = 0; i < count; i++) panel[i * self->n + from + i] = 1;
    view X = view_rows(panel, self->n, count);
    if (M == IMAGE_INVERSE) self->ops->act(self, ACT_SOLVE_T, X);
    if (M == IMAGE_P || M == IMAGE_QP) psgd__group_square(self, X);
    if (M == IMAGE_Q || M == IMAGE_QP) self->ops->act(self, ACT_MUL, X);
    return X;
}

void psgd__gram_by_columns(const group *self, group_image M, double weight, real *R)
{
    int sign = weight < 0 ? -1 : 1;
    for (int64_t from = 0; from < self->n; from += PANEL) {
        view X = column_panel(self, M, from), none = {0};
        la_view_scale(X, (real)sqrt(fabs(weight)));
        none.n = X.n;
        self->ops->project(self, sign > 0 ? X : none, sign > 0 ? none : X, sign, true, R);
    }
}

void psgd__group_gram(const group *self, group_image M, double weight, real *R)
{
    (self->ops->gram ? self->ops->gram : psgd__gram_by_columns)(self, M, weight, R);
}

double psgd__energy_by_columns(const group *self, group_image M)
{
    double sum = 0;
    for (int64_t from = 0; from < self->n; from += PANEL) sum += la_view_energy(column_panel(self, M, from));
    return sum;
}

double psgd__group_energy(const group *self, group_image M)
{
    return (self->ops->energy ? self->ops->energy : psgd__energy_by_columns)(self, M);
}

double psgd__group_fixed(const group *self, view X)
{
    return self->ops->fixed && X.x ? self->ops->fixed(self, X) : 0;
}

double psgd__group_fixed_gram(const group *self, group_image M)
{
    double sum = 0;
    for (int64_t from = 0; self->ops->fixed && from < self->n; from += PANEL) {
        sum += self->ops->fixed(self, column_panel(self, M, from));
    }
    return sum;
}

double psgd__parts_fixed(const group *self, view X)
{
    double sum = 0;
    int64_t from = 0;
    for (int i = 0; i < self->child_count; i++) {
        sum += psgd__group_fixed(self->child[i], view_slice(X, from, self->child[i]->n));
        from += self->child[i]->n;
    }
    return sum;
}

void psgd__group_to_dense(const group *self, real *Q)
{
    int64_t n = self->n;
    memset(Q, 0, (size_t)(n * n) * sizeof(real));
    for (int64_t i = 0; i < n; i++) Q[i * n + i] = 1;
    self->ops->act(self, ACT_MUL, view_columns(Q, n, n));
}

void psgd__group_state(group *self, group_state visit, void *data)
{
    if (self->ops->state) {
        self->ops->state(self, visit, data);
    } else if (self->q_size > 0) {
        visit(data, self->q, self->q_size);
    }
}

void psgd__group_visit(group *self, group_state visit, void *data)
{
    psgd__group_state(self, visit, data);
    for (int i = 0; i < self->child_count; i++) psgd__group_visit(self->child[i], visit, data);
}

void psgd__group_elements(const group *self, group_state visit, void *data)
{
    if (self->ops->elements) {
        self->ops->elements(self, visit, data);
    } else {
        psgd__group_state((group *)self, visit, data);
    }
    for (int i = 0; i < self->child_count; i++) psgd__group_elements(self->child[i], visit, data);
}

static void visit_largest(void *data, real *x, int64_t count)
{
    real *max = data, here = la_max_abs(count, x);
    if (here > *max || here != here) *max = here;
}

real psgd__group_largest(const group *self)
{
    real max = 0;
    if (self->ops->largest) return self->ops->largest(self);
    psgd__group_state((group *)self, visit_largest, &max);
    for (int i = 0; i < self->child_count; i++) {
        real part = psgd__group_largest(self->child[i]);
        if (part > max || part != part) max = part;
    }
    return max;
}

void psgd__group_reset(group *self, double scale)
{
    for (int64_t i = 0; i < self->q_size; i++) self->q[i] = i < self->n ? (real)scale : 0;
}

int64_t psgd__group_no_size(const group *self)
{
    (void)self;
    return 0;
}

int64_t psgd__group_size(const group *self)
{
    int64_t total = self->q_size;
    for (int i = 0; i < self->child_count; i++) total += self->child[i]->ops->size(self->child[i]);
    return total;
}

int64_t psgd__group_r_size(const group *self)
{
    int64_t total = self->q_size;
    for (int i = 0; i < self->child_count; i++) total += self->child[i]->ops->r_size(self->child[i]);
    return total;
}

real psgd__group_r_max(const group *self, const real *R)
{
    return la_max_abs(self->q_size, R);
}

void psgd__group_rescale(group *self, real c)
{
    if (self->q) la_scale(self->q_size, c, self->q);
    for (int i = 0; i < self->child_count; i++) self->child[i]->ops->rescale(self->child[i], c);
}

void psgd__parts_cost(const group *self, group_cost *cost)
{
    for (int i = 0; i < self->child_count; i++) self->child[i]->ops->cost(self->child[i], cost);
}

psgd_status psgd__fit_supports(const group_args *args)
{
    const char *name = args->spec->kind->name;
    if (args->integrate) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "%s (column %d) has an update of its own that takes v: leave out the option integrate", name,
                          args->spec->column);
    }
    if (args->pairs > FIT_MAX_PAIRS) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "%s takes at most %d pairs an update, not %lld", name, FIT_MAX_PAIRS,
                          (long long)args->pairs);
    }
    return PSGD_OK;
}
