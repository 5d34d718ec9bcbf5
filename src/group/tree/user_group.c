/* A group of the caller's own as a group of the library: each op hands the caller's function the fibres of one block
 * after the other. Transposes (under t) are the caller's group with mul and mul_t exchanged: with Q' in place of Q,
 * Q' <- (I - c R') Q' is Q <- Q (I - c R). */
#include "group/group.h"
#include "la/la.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { PANEL = 32 }; /* columns of I that r_sums takes at a time */

typedef struct user {
    group base;
    const psgd_user_group *table;
    int64_t size, scratch, unit; /* in q; places in the workspace */
    real *q;
} user;

static const user *as_user(const group *self)
{
    return (const user *)self;
}

static psgd_element element(const group *self)
{
    const user *u = as_user(self);
    return (psgd_element){
        .n = self->n, .q = u->q, .scratch = psgd__work_at(self->work, u->scratch), .data = u->table->data};
}

static psgd_fibres fibres(view X, int64_t block)
{
    view Y = view_block(X, block);
    return (psgd_fibres){.x = Y.x, .n = Y.n, .inner = Y.inner, .outer = Y.outer, .ld = Y.ld};
}

static psgd_status check_sizes(const group_args *args, const user_entry *entry)
{
    const psgd_user_group *table = &entry->table[REAL_DTYPE];
    int64_t n = args->spec->n;
    if (!table->bytes) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "group '%s' has no table for %s", entry->name,
                          psgd_dtype_name(REAL_DTYPE));
    }
    if (args->transposed && !table->retract_right) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "group '%s' may not stand under t: its table has no retract_right (column %d)", entry->name,
                          args->spec->column);
    }
    int64_t scratch = table->scratch_size ? table->scratch_size(n, table->data) : 0;
    if (table->size(n, table->data) < 0 || table->r_size(n, table->data) < 0 || scratch < 0) {
        return psgd__fail(PSGD_ERR_SPEC, "group '%s' has no size %lld (column %d)", entry->name, (long long)n,
                          args->spec->column);
    }
    return PSGD_OK;
}

static psgd_status user_create(const group_args *args, group **created)
{
    const user_entry *entry = psgd__user_at(args->context, args->spec->kind_index - BUILTIN_COUNT);
    PSGD_TRY(check_sizes(args, entry));
    const psgd_user_group *table = &entry->table[REAL_DTYPE];
    user *self = psgd__group_base(args, entry->ops[REAL_DTYPE], sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    *created = &self->base;

    int64_t n = args->spec->n;
    self->table = table;
    self->size = table->size(n, table->data);
    int64_t scratch = table->scratch_size ? table->scratch_size(n, table->data) : 0;
    self->scratch = psgd__work_reserve(args->work, scratch, sizeof(real));
    self->unit = psgd__work_reserve(args->work, n * PANEL, sizeof(real));
    psgd__group_reserve_sums(&self->base);
    return psgd__group_reals(args, self, self->size, &self->q);
}

static void user_reset(group *self, double scale)
{
    psgd_element e = element(self);
    as_user(self)->table->reset(&e, scale);
}

typedef void (*fibre_op)(const psgd_element *self, psgd_fibres X);

static void each_block(const group *self, fibre_op op, view X)
{
    psgd_element e = element(self);
    for (int64_t b = 0; b < X.blocks; b++) op(&e, fibres(X, b));
}

static void user_mul(const group *self, view X)
{
    const psgd_user_group *t = as_user(self)->table;
    each_block(self, self->transposed ? t->mul_t : t->mul, X);
}

static void user_mul_t(const group *self, view X)
{
    const psgd_user_group *t = as_user(self)->table;
    each_block(self, self->transposed ? t->mul : t->mul_t, X);
}

static void user_solve(const group *self, view X)
{
    const psgd_user_group *t = as_user(self)->table;
    each_block(self, self->transposed ? t->solve_t : t->solve, X);
}

static void user_solve_t(const group *self, view X)
{
    const psgd_user_group *t = as_user(self)->table;
    each_block(self, self->transposed ? t->solve : t->solve_t, X);
}

static int64_t user_size(const group *self)
{
    return as_user(self)->size;
}

static void user_state(group *self, group_state visit, void *data)
{
    visit(data, ((user *)self)->q, as_user(self)->size);
}

static void user_cost(const group *self, group_cost *cost)
{
    const psgd_user_group *t = as_user(self)->table;
    double n = (double)self->n, q = (double)as_user(self)->size * sizeof(real);
    double one = t->flops ? t->flops(self->n, t->data) : 2 * n * n;
    cost->update_flops += 4 * one * (double)self->fibres + one;
    cost->update_bytes += 4 * q;
    cost->apply_flops += 2 * one * (double)self->fibres;
    cost->apply_bytes += 2 * q;
}

static int64_t user_r_size(const group *self)
{
    const psgd_user_group *t = as_user(self)->table;
    return t->r_size(self->n, t->data);
}

/* AA' + sign BB' is symmetric, so the projection onto the transposed algebra is the transpose of this one, and the same
 * values stand for it. */
static void user_project(const group *self, view A, view B, int sign, bool accumulate, real *R)
{
    const psgd_user_group *t = as_user(self)->table;
    psgd_element e = element(self);
    int64_t blocks = A.x ? A.blocks : B.x ? B.blocks : 1;
    for (int64_t b = 0; b < blocks; b++) t->project(&e, fibres(A, b), fibres(B, b), sign, accumulate || b > 0, R);
}

static real user_r_max(const group *self, const real *R)
{
    psgd_element e = element(self);
    return (real)as_user(self)->table->r_max(&e, R);
}

static void r_mul(const group *self, const real *R, bool transpose, view X)
{
    const psgd_user_group *t = as_user(self)->table;
    psgd_element e = element(self);
    for (int64_t b = 0; b < X.blocks; b++) (transpose ? t->r_mul_t : t->r_mul)(&e, R, fibres(X, b));
}

static void user_r_mul(const group *self, const real *R, view X)
{
    r_mul(self, R, self->transposed, X);
}

static void user_r_mul_t(const group *self, const real *R, view X)
{
    r_mul(self, R, !self->transposed, X);
}

/* R from its products with the columns of I. */
static void user_r_sums(const group *self, const real *R, double *rows, double *columns, double *squares)
{
    int64_t n = self->n;
    real *panel = psgd__work_at(self->work, as_user(self)->unit);
    for (int64_t from = 0; from < n; from += PANEL) {
        int64_t count = n - from < PANEL ? n - from : PANEL;
        memset(panel, 0, (size_t)(count * n) * sizeof(real));
        for (int64_t j = 0; j < count; j++) panel[j * n + from + j] = 1;
        user_r_mul(self, R, view_rows(panel, n, count));
        for (int64_t j = 0; j < count; j++) {
            for (int64_t i = 0; i < n; i++) {
                double x = (double)panel[j * n + i];
                rows[i] += fabs(x);
                columns[from + j] += fabs(x);
                *squares += x * x;
            }
        }
    }
}

static real user_r_spectral(const group *self, const real *R)
{
    const psgd_user_group *t = as_user(self)->table;
    psgd_element e = element(self);
    return t->r_spectral ? (real)t->r_spectral(&e, R) : psgd__r_spectral(self, R);
}

static bool user_inside(const group *self, real c, const real *R)
{
    psgd_element e = element(self);
    return as_user(self)->table->inside(&e, (double)c, R) != 0;
}

static void user_retract(group *self, real c, real *R)
{
    const psgd_user_group *t = as_user(self)->table;
    psgd_element e = element(self);
    (self->transposed ? t->retract_right : t->retract)(&e, (double)c, R);
}

static void user_rescale(group *self, real c)
{
    psgd_element e = element(self);
    as_user(self)->table->rescale(&e, (double)c);
}

int64_t PSGD_TYPED(psgd__user_ops_bytes)(void)
{
    return (int64_t)sizeof(group_ops);
}

void PSGD_TYPED(psgd__user_ops_fill)(void *ops, const user_entry *entry)
{
    group_ops table = {
        .kind = entry->kind,
        .create = user_create,
        .reset = user_reset,
        .mul = user_mul,
        .mul_t = user_mul_t,
        .solve = user_solve,
        .solve_t = user_solve_t,
        .size = user_size,
        .state = user_state,
        .cost = user_cost,
        .r_size = user_r_size,
        .project = user_project,
        .r_max = user_r_max,
        .r_spectral = user_r_spectral,
        .r_mul = user_r_mul,
        .r_mul_t = user_r_mul_t,
        .r_sums = user_r_sums,
        .inside = user_inside,
        .retract = user_retract,
        .rescale = entry->table[REAL_DTYPE].rescale ? user_rescale : NULL,
    };
    memcpy(ops, &table, sizeof table);
}
