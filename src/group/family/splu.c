/* The sparse LU family Q = LU, spec "splu(r)" (arXiv 2211.04422): L = [L1 0; L2 diag], U = [U1 U2; 0 diag], L1 lower
 * and U1 upper triangular r x r.
 *
 * Neither L nor U is the whole Q, but each is on a group of its own, where it is fitted: see splu_fit.c. U is kept as
 * its transpose, so both halves are alike. About 2n(r + 1) values, O(nr) for everything. */
#include "group/family/splu.h"
#include "group/leaf/lowrank.h"
#include "la/array/dispatch.h"
#include "la/la.h"

#include <math.h>
#include <string.h>

static const splu *as_splu(const group *self)
{
    return (const splu *)self;
}

static int64_t half_size(const splu *s)
{
    return s->r * s->r + s->r * s->m + s->m;
}

static splu_half half_at(const splu *s, real *x)
{
    return (splu_half){.T = x, .X = x + s->r * s->r, .d = x + s->r * s->r + s->r * s->m};
}

static psgd_status splu_create(const group_args *args, group **created)
{
    int64_t n = args->spec->n, r = (int64_t)args->spec->number, panel;
    if (r > n) r = n;
    PSGD_TRY(psgd__fit_supports(args));
    if (!psgd__mul_fits(r, n + 1, &panel)) {
        return psgd__fail(PSGD_ERR_SPEC, "splu(%lld) of size %lld is more than can be counted", (long long)r,
                          (long long)n);
    }
    splu *self = psgd__group_base(args, &GROUP_OPS(splu), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    *created = &self->base;

    self->r = r;
    self->m = n - r;
    self->base.mix = r + 1;
    int64_t max = 4 * r * args->pairs > r + 1 ? 4 * r * args->pairs : r + 1;
    self->fibre = psgd__work_reserve(args->work, n, sizeof(real));
    self->images = psgd__work_reserve(args->work, 4 * n * args->pairs, sizeof(real));
    self->sums = psgd__work_reserve(args->work, la_sweep_room(max, 4), sizeof(double));
    self->small = psgd__work_reserve(args->work, 12 * r * args->pairs + 2 * r * r + 8 * r, sizeof(double));
    real *l, *u;
    PSGD_TRY(psgd__group_reals(args, self, half_size(self), &l));
    PSGD_TRY(psgd__group_reals(args, self, half_size(self), &u));
    PSGD_TRY(psgd__group_reals(args, self, 1, &self->turn));
    if (args->dry) return PSGD_OK;
    self->L = half_at(self, l);
    self->U = half_at(self, u);
    return PSGD_OK;
}

static void reset_half(const splu *s, splu_half *half, double scale)
{
    memset(half->T, 0, (size_t)half_size(s) * sizeof(real));
    for (int64_t i = 0; i < s->r; i++) half->T[i * s->r + i] = (real)scale;
    for (int64_t i = 0; i < s->m; i++) half->d[i] = (real)scale;
}

static void splu_reset(group *self, double scale)
{
    splu *s = (splu *)self;
    reset_half(s, &s->L, 1);
    reset_half(s, &s->U, scale);
    s->turn[0] = 0;
}

/* x <- T x, T'x, T^-1 x or T^-T x, T lower. */
static void tri_apply(int64_t r, const real *T, bool inverse, bool transpose, double *x)
{
    for (int64_t step = 0; step < r; step++) {
        /* T x reads old entries before i, T^-T x new ones after i: both go from the last row up. */
        int64_t i = inverse == transpose ? r - 1 - step : step;
        int64_t from = transpose ? i + 1 : 0, to = transpose ? r : i;
        double sum = inverse ? x[i] : (double)T[i * r + i] * x[i];
        for (int64_t j = from; j < to; j++) {
            double t = (double)(transpose ? T[j * r + i] : T[i * r + j]);
            sum += inverse ? -t * x[j] : t * x[j];
        }
        x[i] = inverse ? sum / (double)T[i * r + i] : sum;
    }
}

typedef struct passing {
    const splu *self;
    const splu_half *half;
    const splu_job *jobs;
    int count;
} passing;

static void visit_pass(void *data, const la_chunk *rows)
{
    const passing *p = data;
    const la_kernels *k = la_kernel();
    int64_t r = p->self->r, m = p->self->m;
    const real *d = p->half->d + rows->from;
    for (int i = 0; i < p->count; i++) {
        const splu_job *job = &p->jobs[i];
        real *x = job->x2 + rows->from;
        double *sums = rows->sums + i * r;
        if (job->up) {
            if (job->backward) k->div(rows->count, d, x);
            la_panel_dots(p->half->X, m, r, rows, x, sums);
            if (!job->backward) k->mul(rows->count, d, x);
        } else {
            if (!job->backward) k->mul(rows->count, d, x);
            la_panel_add(p->half->X, m, r, rows, job->old, x);
            if (job->backward) k->div(rows->count, d, x);
        }
    }
}

void psgd__splu_pass(const splu *self, const splu_half *half, splu_job *jobs, int count)
{
    int64_t r = self->r;
    double *sums = psgd__work_at(self->base.work, self->sums);
    for (int i = 0; i < count; i++) {
        splu_job *job = &jobs[i];
        if (job->up) continue;
        memcpy(job->old, job->x1, (size_t)r * sizeof(double));
        tri_apply(r, half->T, job->backward, false, job->x1);
        for (int64_t j = 0; job->backward && j < r; j++) job->old[j] = -job->x1[j];
    }
    la_sweep(self->m, visit_pass, &(passing){self, half, jobs, count}, count * r, 0, sums);
    for (int i = 0; i < count; i++) {
        splu_job *job = &jobs[i];
        if (!job->up) continue;
        if (!job->backward) tri_apply(r, half->T, false, true, job->x1);
        for (int64_t j = 0; j < r; j++) job->x1[j] += (job->backward ? -1 : 1) * sums[i * r + j];
        if (job->backward) tri_apply(r, half->T, true, true, job->x1);
    }
}

static void load_top(int64_t r, const real *x, double *x1)
{
    for (int64_t j = 0; j < r; j++) x1[j] = (double)x[j];
}

static void store_top(int64_t r, const double *x1, real *x)
{
    for (int64_t j = 0; j < r; j++) x[j] = (real)x1[j];
}

/* Q = LU, U kept as U': Q x = L (U')'x, Q'x = U'L'x, Q^-1 x = (U')^-T L^-1 x, Q^-T x = L^-T (U')^-1 x. */
static void apply(const splu *s, bool inverse, bool transpose, real *x)
{
    double *small = psgd__work_at(s->base.work, s->small);
    splu_job job = {.x2 = x + s->r, .x1 = small, .old = small + s->r, .backward = inverse};
    bool u_first = inverse == transpose;
    load_top(s->r, x, job.x1);
    job.up = !inverse;
    psgd__splu_pass(s, u_first ? &s->U : &s->L, &job, 1);
    job.up = inverse;
    psgd__splu_pass(s, u_first ? &s->L : &s->U, &job, 1);
    store_top(s->r, job.x1, x);
}

static void splu_act(const group *self, group_act act, view X)
{
    real *fibre = psgd__work_at(self->work, as_splu(self)->fibre);
    for (int64_t f = 0; f < view_fibres(X); f++) {
        real *x = lowrank_borrow(X, f, false, fibre);
        apply(as_splu(self), act_inverse(act), act_transposed(act), x);
        lowrank_return(X, f, false, x);
    }
}

/* A <- Q A and B <- Q^-T B in one pass over each half. */
static void splu_whiten(const group *self, view A, view B)
{
    const splu *s = as_splu(self);
    int64_t r = s->r;
    double *small = psgd__work_at(self->work, s->small);
    for (int64_t k = 0; k < A.outer; k++) {
        real *a = A.x + k * A.ld, *b = B.x + k * B.ld;
        splu_job jobs[2] = {{.x2 = a + r, .x1 = small, .old = small + r, .up = true},
                            {.x2 = b + r, .x1 = small + 2 * r, .old = small + 3 * r, .backward = true}};
        load_top(r, a, jobs[0].x1);
        load_top(r, b, jobs[1].x1);
        psgd__splu_pass(s, &s->U, jobs, 2);
        jobs[0].up = false;
        jobs[1].up = true;
        psgd__splu_pass(s, &s->L, jobs, 2);
        store_top(r, jobs[0].x1, a);
        store_top(r, jobs[1].x1, b);
    }
}

static int64_t splu_size(const group *self)
{
    const splu *s = as_splu(self);
    return s->r * (s->r + 1) + 2 * s->m * (s->r + 1);
}

static void splu_state(group *self, group_state visit, void *data)
{
    splu *s = (splu *)self;
    visit(data, s->L.T, half_size(s));
    visit(data, s->U.T, half_size(s));
    visit(data, s->turn, 1);
}

static void splu_elements(const group *self, group_state visit, void *data)
{
    const splu *s = as_splu(self);
    visit(data, s->L.T, half_size(s));
    visit(data, s->U.T, half_size(s));
}

static void splu_cost(const group *self, group_cost *cost)
{
    double n = (double)self->n, r = (double)as_splu(self)->r;
    cost->update_flops += 32 * n * r + 40 * n;
    cost->update_bytes += (8 * n * r + 24 * n) * sizeof(real);
    cost->apply_flops += 8 * n * r + 4 * n;
    cost->apply_bytes += (4 * n * r + 4 * n) * sizeof(real);
}

static void splu_rescale(group *self, real c)
{
    la_scale(half_size(as_splu(self)), c, as_splu(self)->U.T);
}

/* |Q_ij| <= (r + 1) max|L| max|U|. */
static real splu_largest(const group *self)
{
    const splu *s = as_splu(self);
    return (real)((double)(s->r + 1) * (double)la_max_abs(half_size(s), s->L.T) *
                  (double)la_max_abs(half_size(s), s->U.T));
}

static const group_fused splu_fused = {.whiten = splu_whiten};

const group_ops GROUP_OPS(splu) = {
    .kind = {.name = "splu",
             .summary = "splu(r): LU, L = [L1 0; L2 diag], U = [U1 U2; 0 diag], L1 and U1 r x r",
             .formula = "r(r+1) + 2(n-r)(r+1)",
             .takes_number = true,
             .place = PLACE_VECTOR},
    .fused = &splu_fused,
    .create = splu_create,
    .reset = splu_reset,
    .act = splu_act,
    .size = splu_size,
    .state = splu_state,
    .elements = splu_elements,
    .cost = splu_cost,
    .r_size = psgd__group_no_size,
    .fit = psgd__splu_fit,
    .rescale = splu_rescale,
    .largest = splu_largest,
};
