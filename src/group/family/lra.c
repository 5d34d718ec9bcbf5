/* The low-rank family Q = (I + UV') diag(d), spec "lra(r)" (arXiv 2211.04422), U and V n x r.
 *
 * Not a group: d, U and V are fitted in turn, see lra_fit.c. Products take two passes over a panel of r columns,
 * inverses the same and M^-1, M = I + V'U, r x r: (I + UV')^-1 = I - U M^-1 V'. n(2r + 1) values, O(nr) for
 * everything. */
#include "group/family/lra.h"
#include "core/rng.h"
#include "group/leaf/lowrank.h"
#include "group/family/small_matrix.h"
#include "la/array/dispatch.h"
#include "la/la.h"

#include <math.h>
#include <string.h>

static const lra *as_lra(const group *self)
{
    return (const lra *)self;
}

static psgd_status lra_create(const group_args *args, group **created)
{
    int64_t n = args->spec->n, r = (int64_t)args->spec->number;
    if (r > n) r = n; /* no more columns than rows: the family is the same */
    PSGD_TRY(psgd__fit_supports(args));
    lra *self = psgd__group_base(args, &GROUP_OPS(lra), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    *created = &self->base;

    self->base.mix = 1;
    self->r = r;
    int64_t panels, max = 4 * r * args->pairs > r * LRA_BLOCK ? 4 * r * args->pairs : r * LRA_BLOCK;
    if (!psgd__mul_fits(2 * r, n, &panels)) {
        psgd__group_free(&self->base);
        return psgd__fail(PSGD_ERR_SPEC, "lra(%lld) of size %lld is more than can be counted", (long long)r,
                          (long long)n);
    }
    self->fibre = psgd__work_reserve(args->work, n, sizeof(real));
    self->gradient = psgd__work_reserve(args->work, n, sizeof(real));
    self->rows = psgd__work_reserve(args->work, 2 * n, sizeof(real));
    self->sums = psgd__work_reserve(args->work, la_sweep_room(max + 6 * args->pairs, 3), sizeof(double));
    self->small = psgd__work_reserve(args->work, 4 * r * r + 4 * r * args->pairs + 4 * r, sizeof(double));
    PSGD_TRY(psgd__group_reals(args, self, n, &self->d));
    PSGD_TRY(psgd__group_reals(args, self, panels, &self->u));
    self->v = self->u ? self->u + r * n : NULL;
    return psgd__group_reals(args, self, LRA_M + 2 * r * r, &self->memory);
}

void psgd__lra_reset(group *base, double scale)
{
    lra *self = (lra *)base;
    int64_t n = base->n, r = self->r;
    rng_stream stream = psgd__rng_stream(0, RNG_INIT, (uint64_t)n, (uint64_t)r);
    real size = (real)(1 / sqrt((double)n));
    for (int64_t i = 0; i < n; i++) self->d[i] = (real)scale;
    memset(self->u, 0, (size_t)(r * n) * sizeof(real));
    for (int64_t i = 0; i < r * n; i += 32) {
        uint32_t bits = psgd__rng_bits(&stream, (uint64_t)i / 32);
        for (int64_t b = 0; b < 32 && i + b < r * n; b++) self->v[i + b] = bits >> b & 1 ? size : -size;
    }
    memset(self->memory, 0, (size_t)(LRA_M + 2 * r * r) * sizeof(real));
    for (int64_t i = 0; i < r; i++) self->memory[LRA_M + i * r + i] = 1;
    self->whitened = NULL;
}

void psgd__lra_matrix(const lra *self, double **M, double **inverse)
{
    int64_t r = self->r;
    const real *high = self->memory + LRA_M, *low = high + r * r;
    *M = psgd__work_at(self->base.work, self->small);
    *inverse = *M + r * r;
    for (int64_t i = 0; i < r * r; i++) (*M)[i] = (double)high[i] + (double)low[i];
    small_invert(r, *M, *inverse, *M + 2 * r * r);
}

void psgd__lra_keep_matrix(lra *self, const double *M)
{
    int64_t r = self->r;
    real *high = self->memory + LRA_M, *low = high + r * r;
    for (int64_t i = 0; i < r * r; i++) {
        high[i] = (real)M[i];
        low[i] = (real)(M[i] - (double)high[i]);
    }
}

/* One pass over a panel: x times or divided by d before, products with the columns or a sum of columns added, x times
 * or divided by d after. */
typedef struct pass {
    const lra *self;
    real *x;
    const real *panel;
    const double *add; /* NULL: products */
    bool before, after, divide;
} pass;

static void scale_by_d(const pass *p, const la_chunk *rows, real *x)
{
    const la_kernels *k = la_kernel();
    (p->divide ? k->div : k->mul)(rows->count, p->self->d + rows->from, x);
}

static void visit_pass(void *data, const la_chunk *rows)
{
    const pass *p = data;
    int64_t n = p->self->base.n, r = p->self->r;
    real *x = p->x + rows->from;
    if (p->before) scale_by_d(p, rows, x);
    if (p->add) {
        la_panel_add(p->panel, n, r, rows, p->add, x);
    } else {
        la_panel_dots(p->panel, n, r, rows, x, rows->sums);
    }
    if (p->after) scale_by_d(p, rows, x);
}

/* x <- Q x, Q'x, Q^-1 x or Q^-T x for one contiguous fibre. */
static void apply(const lra *self, bool inverse, bool transpose, real *x)
{
    int64_t n = self->base.n, r = self->r;
    double *sums = psgd__work_at(self->base.work, self->sums), *M, *I;
    double *t = lra_projection(self, self->base.pairs, 0);
    bool first = inverse == transpose; /* d comes first in Q and Q^-T */
    pass p = {.self = self, .x = x, .panel = transpose ? self->u : self->v, .before = first, .divide = inverse};
    la_sweep(n, visit_pass, &p, r, 0, sums);
    memcpy(t, sums, (size_t)r * sizeof(double));
    if (inverse) {
        psgd__lra_matrix(self, &M, &I);
        small_mul(r, I, transpose, sums, t);
        for (int64_t j = 0; j < r; j++) t[j] = -t[j];
    }
    p = (pass){
        .self = self, .x = x, .panel = transpose ? self->v : self->u, .add = t, .after = !first, .divide = inverse};
    la_sweep(n, visit_pass, &p, 0, 0, sums);
}

static void lra_act(const group *self, group_act act, view X)
{
    real *fibre = psgd__work_at(self->work, as_lra(self)->fibre);
    for (int64_t f = 0; f < view_fibres(X); f++) {
        real *x = lowrank_borrow(X, f, false, fibre);
        apply(as_lra(self), act_inverse(act), act_transposed(act), x);
        lowrank_return(X, f, false, x);
    }
}

/* A <- Q A and B <- Q^-T B in two passes over both panels, the second of which leaves the projections for the fit. */
typedef struct whitening {
    const lra *self;
    real *a, *b;
    const double *add_a, *add_b; /* NULL in the first pass */
} whitening;

void psgd__lra_project(const lra *self, const la_chunk *rows, const real *a, const real *b, double *sums)
{
    int64_t n = self->base.n, r = self->r;
    la_panel_dots(self->v, n, r, rows, a, sums + VA * r);
    la_panel_dots(self->u, n, r, rows, a, sums + UA * r);
    la_panel_dots(self->v, n, r, rows, b, sums + VB * r);
    la_panel_dots(self->u, n, r, rows, b, sums + UB * r);
}

static void visit_whiten(void *data, const la_chunk *rows)
{
    const whitening *f = data;
    const lra *self = f->self;
    const la_kernels *k = la_kernel();
    int64_t n = self->base.n, r = self->r;
    real *a = f->a + rows->from, *b = f->b + rows->from;
    double *sums = rows->sums;
    if (!f->add_a) {
        k->mul(rows->count, self->d + rows->from, a);
        k->div(rows->count, self->d + rows->from, b);
        la_panel_dots(self->v, n, r, rows, a, sums);
        la_panel_dots(self->u, n, r, rows, b, sums + r);
        return;
    }
    la_panel_add(self->u, n, r, rows, f->add_a, a);
    la_panel_add(self->v, n, r, rows, f->add_b, b);
    psgd__lra_project(self, rows, a, b, sums);
}

static void lra_whiten(const group *self, view A, view B)
{
    const lra *l = as_lra(self);
    int64_t r = l->r;
    double *sums = psgd__work_at(self->work, l->sums), *M, *inverse, *t = lra_projection(l, self->pairs, 0);
    psgd__lra_matrix(l, &M, &inverse);
    for (int64_t k = 0; k < A.outer; k++) {
        whitening f = {.self = l, .a = A.x + k * A.ld, .b = B.x + k * B.ld};
        la_sweep(self->n, visit_whiten, &f, 2 * r, 0, sums);
        memcpy(t, sums, (size_t)r * sizeof(double));
        small_mul(r, inverse, true, sums + r, t + r);
        for (int64_t j = 0; j < r; j++) t[r + j] = -t[r + j];
        f.add_a = t;
        f.add_b = t + r;
        la_sweep(self->n, visit_whiten, &f, 4 * r, 0, sums);
        memcpy(lra_projection(l, k, VA), sums, (size_t)(4 * r) * sizeof(double));
    }
    ((lra *)self)->whitened = A.x;
}

static int64_t lra_size(const group *self)
{
    return self->n * (2 * as_lra(self)->r + 1);
}

static void lra_state(group *self, group_state visit, void *data)
{
    lra *l = (lra *)self;
    l->whitened = NULL;
    visit(data, l->d, self->n);
    visit(data, l->u, 2 * l->r * self->n);
    visit(data, l->memory, LRA_M + 2 * l->r * l->r);
}

/* d, U and V; M follows from them. */
static void lra_elements(const group *self, group_state visit, void *data)
{
    const lra *l = as_lra(self);
    visit(data, l->d, self->n);
    visit(data, l->u, 2 * l->r * self->n);
}

/* Both panels are read twice to whiten and once for the gradients; one of them is read and written in turn. */
static void lra_cost(const group *self, group_cost *cost)
{
    double n = (double)self->n, r = (double)as_lra(self)->r;
    cost->update_flops += 40 * n * r + 24 * n;
    cost->update_bytes += (8 * n * r + 4 * n) * sizeof(real);
    cost->apply_flops += 8 * n * r + 2 * n;
    cost->apply_bytes += (4 * n * r + 2 * n) * sizeof(real);
}

static void lra_rescale(group *self, real c)
{
    la_scale(self->n, c, ((lra *)self)->d);
    ((lra *)self)->whitened = NULL;
}

/* |Q_ij| <= (1 + r max|U| max|V|) max|d|. */
static real lra_largest(const group *self)
{
    const lra *l = as_lra(self);
    int64_t panel = l->r * self->n;
    double product = (double)la_max_abs(panel, l->u) * (double)la_max_abs(panel, l->v);
    return (real)((1 + (double)l->r * product) * (double)la_max_abs(self->n, l->d));
}

static const group_fused lra_fused = {.whiten = lra_whiten};

const group_ops GROUP_OPS(lra) = {
    .kind = {.name = "lra",
             .summary = "lra(r): (I + UV') diag(d), U and V n x r",
             .formula = "n(2r+1)",
             .takes_number = true,
             .unprotected = true,
             .place = PLACE_VECTOR},
    .fused = &lra_fused,
    .create = lra_create,
    .reset = psgd__lra_reset,
    .act = lra_act,
    .size = lra_size,
    .state = lra_state,
    .elements = lra_elements,
    .cost = lra_cost,
    .r_size = psgd__group_no_size,
    .fit = psgd__lra_fit,
    .rescale = lra_rescale,
    .largest = lra_largest,
};
