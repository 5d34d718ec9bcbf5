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
    int64_t scratch, unit; /* places in the workspace */
} user;

static const user *as_user(const group *self)
{
    return (const user *)self;
}

static psgd_element element(const group *self)
{
    const user *u = as_user(self);
    return (psgd_element){
        .n = self->n, .q = self->q, .scratch = psgd__work_at(self->work, u->scratch), .data = u->table->data};
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
    self->base.transposed = args->transposed;
    int64_t scratch = table->scratch_size ? table->scratch_size(n, table->data) : 0;
    self->scratch = psgd__work_reserve(args->work, scratch, sizeof(real));
    self->unit = psgd__work_reserve(args->work, n * PANEL, sizeof(real));
    psgd__group_reserve_sums(&self->base);
    return psgd__group_q(args, &self->base, table->size(n, table->data));
}

static void user_reset(group *self, double scale)
{
    psgd_element e = element(self);
    as_user(self)->table->reset(&e, scale);
}

static void user_act(const group *self, group_act act, view X)
{
    const psgd_user_group *t = as_user(self)->table;
    void (*const ops[])(const psgd_element *, psgd_fibres) = {
        [ACT_MUL] = t->mul, [ACT_MUL_T] = t->mul_t, [ACT_SOLVE] = t->solve, [ACT_SOLVE_T] = t->solve_t};
    psgd_element e = element(self);
    for (int64_t b = 0; b < X.blocks; b++) ops[act ^ self->transposed](&e, fibres(X, b));
}

static void user_cost(const group *self, group_cost *cost)
{
    const psgd_user_group *t = as_user(self)->table;
    double n = (double)self->n, q = (double)self->q_size * sizeof(real);
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

static void user_r_mul(const group *self, const real *R, bool transpose, view X)
{
    const psgd_user_group *t = as_user(self)->table;
    psgd_element e = element(self);
    for (int64_t b = 0; b < X.blocks; b++) {
        (transpose != self->transposed ? t->r_mul_t : t->r_mul)(&e, R, fibres(X, b));
    }
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
        user_r_mul(self, R, false, view_rows(panel, n, count));
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
        .act = user_act,
        .size = psgd__group_size,
        .cost = user_cost,
        .r_size = user_r_size,
        .project = user_project,
        .r_max = user_r_max,
        .r_spectral = user_r_spectral,
        .r_mul = user_r_mul,
        .r_sums = user_r_sums,
        .inside = user_inside,
        .retract = user_retract,
        .rescale = entry->table[REAL_DTYPE].rescale ? user_rescale : NULL,
    };
    memcpy(ops, &table, sizeof table);
}
