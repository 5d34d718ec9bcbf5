/* The update of the low-rank family: d, and U or V in turn, all from the old values.
 *
 *     d <- d - c d (h Ph - v P^-1 v),  U <- U - c (aa' - bb')V(I + V'U)  or  V <- V - c (I + VU')(aa' - bb')U
 *
 * With a = Qh and b = Q^-T v everything is known: h Ph = ((I + UV')^-1 a) ((I + VU')a), entry by entry, and likewise
 * for v. The step of U is I + UV' <- (I - cR)(I + UV') with R = (aa' - bb')VV', that of V the same with R = UU'(aa' -
 * bb'): these R are what is normalised. M = I + V'U follows exactly, M <- (I - c (xx' - yy'))M with x = V'a, y = V'b
 * (or U'a, U'b), and is recomputed every REFRESH_EVERY updates. */
#include "group/family/lra.h"
#include "group/family/small_matrix.h"
#include "la/array/dispatch.h"
#include "la/la.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { REFRESH_EVERY = 16, BALANCE_EVERY = 128 };

static void visit_projections(void *data, const la_chunk *rows)
{
    const lra_fitting *f = data;
    for (int64_t k = 0; k < f->pairs; k++) {
        const real *a = f->A.x + k * f->A.ld + rows->from, *b = f->B.x + k * f->B.ld + rows->from;
        psgd__lra_project(f->self, rows, a, b, rows->sums + 4 * k * f->self->r);
    }
}

/* x + sum_j c_j P_j into y. */
static void combine(const lra *l, const la_chunk *rows, const real *x, const real *panel, const double *c, real *y)
{
    memcpy(y, x, (size_t)rows->count * sizeof(real));
    la_panel_add(panel, l->base.n, l->r, rows, c, y);
}

/* g += left right and both += |left right|, entry by entry. */
static void add_products(int64_t count, int sign, const real *left, const real *right, real *g, real *both)
{
    for (int64_t i = 0; i < count; i++) {
        real x = left[i] * right[i];
        g[i] += (real)sign * x;
        both[i] += x < 0 ? -x : x;
    }
}

static void visit_gradient(void *data, const la_chunk *rows)
{
    const lra_fitting *f = data;
    const lra *l = f->self;
    const la_kernels *kernel = la_kernel();
    int64_t n = l->base.n, r = l->r, count = rows->count;
    real left[LA_CHUNK], right[LA_CHUNK], both[LA_CHUNK];
    real *g = (real *)psgd__work_at(l->base.work, l->gradient) + rows->from;
    memset(g, 0, (size_t)count * sizeof(real));
    memset(both, 0, (size_t)count * sizeof(real));
    for (int64_t k = 0; k < f->pairs; k++) {
        const real *x[2] = {f->A.x + k * f->A.ld + rows->from, f->B.x + k * f->B.ld + rows->from};
        double *sums = rows->sums + 6 * k;
        for (int which = 0; which < 2; which++) {
            combine(l, rows, x[which], l->v, lra_projection(l, k, which ? UB : UA), left);
            combine(l, rows, x[which], l->u, f->solved + (2 * k + which) * r, right);
            add_products(count, which ? -1 : 1, left, right, g, both);
        }
        memset(left, 0, (size_t)count * sizeof(real));
        memset(right, 0, (size_t)count * sizeof(real));
        la_panel_add(lra_fixed_panel(f), n, r, rows, lra_fixed_projection(f, k, false), left);
        la_panel_add(lra_fixed_panel(f), n, r, rows, lra_fixed_projection(f, k, true), right);
        sums[0] += kernel->dot(count, x[0], x[0]);
        sums[1] += kernel->dot(count, x[1], x[1]);
        sums[2] += kernel->dot(count, x[0], x[1]);
        sums[3] += kernel->dot(count, left, left);
        sums[4] += kernel->dot(count, right, right);
        sums[5] += kernel->dot(count, left, right);
    }
    real upper = 0;
    for (int64_t i = 0; i < count; i++) upper = g[i] > upper ? g[i] : upper;
    rows->max[0] = fmax(rows->max[0], (double)kernel->max_abs(count, g));
    rows->max[1] = fmax(rows->max[1], (double)kernel->max_abs(count, both));
    rows->max[2] = fmax(rows->max[2], (double)upper);
}

static double size_of_d(void *data, group_size which)
{
    const lra_fitting *f = data;
    return which == SIZE_SECOND ? f->both : f->max;
}

/* d -= c g d; the panel that moves: U -= c (a f' - b g'), f = M'V'a; V -= c ((I + VU')a (U'a)' - ..). */
static void visit_step(void *data, const la_chunk *rows)
{
    const lra_fitting *f = data;
    lra *l = f->self;
    const la_kernels *kernel = la_kernel();
    int64_t n = l->base.n, r = l->r, count = rows->count;
    const real *g = (const real *)psgd__work_at(l->base.work, l->gradient) + rows->from;
    real *d = l->d + rows->from;
    real c = (real)f->c_d;
    for (int64_t i = 0; i < count; i++) d[i] -= c * g[i] * d[i];
    if (f->c_panel == 0) return;

    /* (I + VU')a overwrites a, which is not read again, while V still has its old values. */
    for (int64_t k = 0; f->on_v && k < f->pairs; k++) {
        la_panel_add(l->v, n, r, rows, lra_projection(l, k, UA), f->A.x + k * f->A.ld + rows->from);
        la_panel_add(l->v, n, r, rows, lra_projection(l, k, UB), f->B.x + k * f->B.ld + rows->from);
    }
    real *panel = f->on_v ? l->v : l->u;
    for (int64_t k = 0; k < f->pairs; k++) {
        const real *x[2] = {f->A.x + k * f->A.ld + rows->from, f->B.x + k * f->B.ld + rows->from};
        for (int64_t j = 0; j < r; j++) {
            real *column = panel + j * n + rows->from;
            const double *t = f->turned + 2 * k * r + j;
            kernel->axpy(count, (real)(-f->c_panel * t[0]), x[0], column);
            kernel->axpy(count, (real)(f->c_panel * t[r]), x[1], column);
        }
    }
}

static double ask(lra_fitting *f, int part, double (*size)(void *, group_size), const group_fit *how)
{
    return how->step(how->data, &(group_part){.size = size, .data = f, .index = part});
}

/* A plain step of relative size c size >= 1 could make d or M singular: it is cut to 1/2 and counted. */
static double held(double c, double size, group_fit *how)
{
    if (!how->plain || c * size < 1) return c;
    how->skipped++;
    return 0.5 / size;
}

static void choose_d(lra_fitting *f, group_fit *how)
{
    f->c_d = 0;
    if (!(f->max > 0)) return;
    double c = held(ask(f, 0, size_of_d, how), f->max, how);
    how->moved = true;
    if (f->max <= FIT_ROUNDING * (double)REAL_EPSILON * f->both) return; /* what rounding leaves at an exact fit */
    if (c < (double)REAL_MAX && c * f->upper < 1 && c * f->max < 1e6) {
        f->c_d = c;
    } else {
        how->skipped++;
    }
}

/* next <- (I - c sum (xx' - yy'))M. */
static void follow(const lra_fitting *f, double c, const double *M, double *next)
{
    int64_t r = f->self->r;
    double *turned = lra_projection(f->self, f->self->base.pairs, 0);
    memcpy(next, M, (size_t)(r * r) * sizeof(double));
    for (int64_t k = 0; k < 2 * f->pairs; k++) {
        const double *x = lra_fixed_projection(f, k / 2, k % 2);
        small_mul(r, M, true, x, turned);
        for (int64_t i = 0; i < r; i++) {
            for (int64_t j = 0; j < r; j++) next[i * r + j] -= (k % 2 ? -c : c) * x[i] * turned[j];
        }
    }
}

/* The lower triangle of S <- c sum (xx' - yy'). */
static void sum_projections(const lra_fitting *f, double c, double *S)
{
    int64_t r = f->self->r;
    memset(S, 0, (size_t)(r * r) * sizeof(double));
    for (int64_t k = 0; k < 2 * f->pairs; k++) {
        const double *x = lra_fixed_projection(f, k / 2, k % 2);
        for (int64_t i = 0; i < r; i++) {
            for (int64_t j = 0; j <= i; j++) S[i * r + j] += (k % 2 ? -c : c) * x[i] * x[j];
        }
    }
}

/* || sum (xx' - yy') ||_F, at least the largest eigenvalue of R. spare has r^2 entries. */
static double size_of_turn(const lra_fitting *f, double *spare)
{
    int64_t r = f->self->r;
    double squares = 0;
    sum_projections(f, 1, spare);
    for (int64_t i = 0; i < r; i++) {
        for (int64_t j = 0; j <= i; j++) squares += (i == j ? 1 : 2) * spare[i * r + j] * spare[i * r + j];
    }
    return sqrt(squares);
}

/* Whether I - t c sum (xx' - yy') is invertible for all t in [0, 1], hence positive definite at t = 1: then M, and Q
 * with it, is never singular on the way. spare has r^2 entries. */
static bool stays_inside(const lra_fitting *f, double c, double *spare)
{
    int64_t r = f->self->r;
    sum_projections(f, -c, spare);
    for (int64_t i = 0; i < r; i++) spare[i * r + i] += 1;
    return small_positive(r, spare);
}

static void choose_panel(lra_fitting *f, const double *M, group_fit *how)
{
    int64_t r = f->self->r;
    double *next = (double *)M + 2 * r * r, *spare = next + r * r; /* M^-1 stands between */
    f->c_panel = 0;
    double there = 0;
    for (int64_t k = 0; k < f->pairs; k++) there += f->sums[6 * k + 3] + f->sums[6 * k + 4];
    if (!(there > 0)) return;

    double c = ask(f, f->on_v ? 2 : 1, psgd__lra_panel_size, how);
    if (c == 0) return;
    c = held(c, size_of_turn(f, spare), how);
    how->moved = true;
    double terms = psgd__lra_panel_size(f, SIZE_SECOND);
    if (psgd__lra_panel_size(f, SIZE_SPECTRAL) <= FIT_ROUNDING * (double)REAL_EPSILON * terms) return;
    follow(f, c, M, next);
    bool sane = c < (double)REAL_MAX && stays_inside(f, c, spare) && small_invert(r, next, (double *)M + r * r, spare);
    for (int64_t i = 0; sane && i < 2 * r * f->pairs; i++) sane = fabs(c * f->turned[i]) < (double)REAL_MAX / 1e12;
    if (!sane) {
        how->skipped++;
        return;
    }
    f->c_panel = c;
    psgd__lra_keep_matrix(f->self, next);
}

typedef struct refreshing {
    const lra *self;
    int64_t from, columns;
} refreshing;

static void visit_refresh(void *data, const la_chunk *rows)
{
    const refreshing *f = data;
    const lra *l = f->self;
    for (int64_t j = 0; j < f->columns; j++) {
        la_panel_dots(l->v, l->base.n, l->r, rows, l->u + (f->from + j) * l->base.n + rows->from,
                      rows->sums + j * l->r);
    }
}

/* M = I + V'U from the panels. */
static void refresh(lra *l)
{
    int64_t r = l->r;
    double *sums = psgd__work_at(l->base.work, l->sums), *M = psgd__work_at(l->base.work, l->small);
    for (int64_t from = 0; from < r; from += LRA_BLOCK) {
        refreshing f = {.self = l, .from = from, .columns = r - from < LRA_BLOCK ? r - from : LRA_BLOCK};
        la_sweep(l->base.n, visit_refresh, &f, f.columns * r, 0, sums);
        for (int64_t j = 0; j < f.columns; j++) {
            for (int64_t i = 0; i < r; i++) M[i * r + from + j] = sums[j * r + i] + (i == from + j);
        }
    }
    psgd__lra_keep_matrix(l, M);
}

/* Scales U and V by a power of two to within a factor of two of the same size, which leaves UV' unchanged. Panels so
 * large that rounding of UV' exceeds I are reset. */
static void balance(lra *l, group_fit *how)
{
    int64_t panel = l->r * l->base.n;
    double u = (double)la_max_abs(panel, l->u), v = (double)la_max_abs(panel, l->v);
    if (!(u > 0) || !(v > 0)) return;
    if (!(u * v * (double)REAL_EPSILON < 1)) {
        psgd__lra_reset(&l->base, (double)la_max_abs(l->base.n, l->d));
        how->skipped++;
        return;
    }
    int shift = (int)lround(log2(v / u) / 2);
    la_scale(panel, (real)ldexp(1, shift), l->u);
    la_scale(panel, (real)ldexp(1, -shift), l->v);
}

void psgd__lra_fit(group *self, const group_pair *pair, group_fit *how)
{
    lra *l = (lra *)self;
    int64_t r = l->r, pairs = pair->A.outer;
    int turn = fit_turn(l->memory[LRA_TURN], BALANCE_EVERY);
    double *M, *inverse, *sums = psgd__work_at(self->work, l->sums);
    lra_fitting f = {.self = l, .pairs = pairs, .A = pair->A, .B = pair->B, .on_v = turn % 2 == 1};
    if (l->whitened != pair->A.x || pair->scaled) {
        la_sweep(self->n, visit_projections, &f, 4 * pairs * r, 0, sums);
        memcpy(lra_projection(l, 0, VA), sums, (size_t)(4 * pairs * r) * sizeof(double));
    }
    l->whitened = NULL;

    double *solved = sums + la_sweep_room(6 * pairs, 3), *turned = solved + 2 * pairs * r;
    psgd__lra_matrix(l, &M, &inverse);
    for (int64_t k = 0; k < pairs; k++) {
        for (int which = 0; which < 2; which++) {
            double *at = solved + (2 * k + which) * r;
            small_mul(r, inverse, false, lra_projection(l, k, which ? VB : VA), at);
            for (int64_t j = 0; j < r; j++) at[j] = -at[j];
            if (f.on_v) {
                memcpy(turned + (2 * k + which) * r, lra_fixed_projection(&f, k, which), (size_t)r * sizeof(double));
            } else {
                small_mul(r, M, true, lra_fixed_projection(&f, k, which), turned + (2 * k + which) * r);
            }
        }
    }
    f.solved = solved;
    f.turned = turned;
    f.sums = sums;
    la_sweep(self->n, visit_gradient, &f, 6 * pairs, 3, sums);
    f.max = sums[6 * pairs];
    f.both = sums[6 * pairs + 1];
    f.upper = sums[6 * pairs + 2];
    choose_d(&f, how);
    if (r > 0) choose_panel(&f, M, how);
    if (!how->moved) return;

    la_sweep(self->n, visit_step, &f, 0, 0, sums);
    turn = (turn + 1) % BALANCE_EVERY;
    l->memory[LRA_TURN] = (real)turn;
    if (r == 0) return;
    if (turn % REFRESH_EVERY == 0) refresh(l);
    if (turn == 0) balance(l, how);
}
