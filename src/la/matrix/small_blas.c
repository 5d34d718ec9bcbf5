#include "la/matrix/small_blas.h"
#include "la/pool.h"
#include "la/array/dispatch.h"

#include <string.h>

enum {
    LINE = 64,
    PANEL_SIZE = LA_BLOCK_MAX * LA_PANEL_BYTES / (int)sizeof(real),
    SHORT = 64, /* entries of a fibre, up to which a panel of its own size is on the stack: a large one is probed page
                   by page, which takes longer than the work on a short one */
    SHORT_SIZE = SHORT * LA_PANEL_BYTES / (int)sizeof(real),
    GATHERED = (1 << 17) / (int)sizeof(real), /* elements of the fibres that are gathered at a time */
    MAX_GATHERED = 128,                       /* fibres: with a block of R they fit the first-level cache */
    FEW_PANELS = 8                            /* of a product: fewer than that are cut */
};

/* la_parallel counts in operations of a plain loop; these kernels do about ten in that time. */
static double effort(double flops)
{
    return flops / 10;
}

/* What is done panel by panel, with the panel on the stack: the first member of every such job. */
typedef struct panel_job {
    void (*part)(const struct panel_job *job, int64_t i, real *P);
} panel_job;

static void with_long_panel(void *data, int64_t i)
{
    _Alignas(LINE) real P[PANEL_SIZE];
    const panel_job *job = data;
    job->part(job, i, P);
}

static void with_short_panel(void *data, int64_t i)
{
    _Alignas(LINE) real P[SHORT_SIZE];
    const panel_job *job = data;
    job->part(job, i, P);
}

/* entries: of a fibre in a panel. */
static void for_panels(panel_job *job, int64_t parts, int64_t entries, double flops)
{
    la_parallel(parts, effort(flops), entries <= SHORT ? with_short_panel : with_long_panel, job);
}

static void one_panel(const la_kernels *k, const real *T, bool lower, const la_block_op *op, int64_t m, int64_t from,
                      int64_t width, real *P)
{
    int64_t n = op->X.n;
    fibres f = fibres_of(&op->X);
    real *x = fibres_matrix(&op->X, m) + from * f.fibre;
    k->panel_load(n, width, x, f.entry, f.fibre, P);
    for (int i = 0; i < op->count; i++) {
        bool turned = op->transpose[i];
        la_tri t = {.T = T, .n = n, .row = turned ? 1 : n, .column = turned ? n : 1, .lower = lower != turned};
        (op->solve ? k->tri_solve : k->tri_mul)(&t, width, P);
    }
    k->panel_store(n, width, P, x, f.entry, f.fibre);
}

typedef struct tri_job {
    panel_job base;
    const real *T;
    bool lower;
    const la_block_op *ops;
    int64_t width; /* fibres of a part, a panel or half of one */
} tri_job;

static int64_t tri_parts(const la_block_op *op, int64_t width)
{
    fibres f = fibres_of(&op->X);
    return f.matrices * ((f.each + width - 1) / width);
}

static void tri_part(const panel_job *base, int64_t i, real *P)
{
    const tri_job *job = (const tri_job *)base;
    const la_block_op *op = job->ops;
    for (int64_t own; i >= (own = tri_parts(op, job->width)); op++) i -= own;
    fibres f = fibres_of(&op->X);
    int64_t row = (f.each + job->width - 1) / job->width, from = i % row * job->width;
    one_panel(la_kernel(), job->T, job->lower, op, i / row, from, smaller(job->width, f.each - from), P);
}

/* Half a panel takes 0.6 of the time of a whole one, which may still be less than threads that have nothing to do. */
static bool halves_are_faster(int64_t panels)
{
    int64_t threads = la_threads();
    return 0.6 * (double)((2 * panels + threads - 1) / threads) < (double)((panels + threads - 1) / threads);
}

void la_block_tri(const real *T, bool lower, int count, const la_block_op *ops)
{
    tri_job job = {{tri_part}, T, lower, ops, la_kernel()->panel};
    double work = 0;
    int64_t parts = 0;
    for (int i = 0; i < count; i++) {
        parts += tri_parts(&ops[i], job.width);
        work += (double)ops[i].X.n * (double)ops[i].X.n * (double)view_fibres(ops[i].X) * ops[i].count;
    }
    if (effort(work) > LA_MIN_WORK && halves_are_faster(parts)) {
        job.width /= 2;
        parts = 0;
        for (int i = 0; i < count; i++) parts += tri_parts(&ops[i], job.width);
    }
    for_panels(&job.base, parts, ops[0].X.n, work);
}

/* Blocks of rows go to the parts in turn, there and back, so that long and short ones are shared evenly. */
static bool owns(int64_t index, int part, int parts)
{
    int64_t turn = index % (2 * parts);
    return (turn < parts ? turn : 2 * parts - 1 - turn) == part;
}

typedef struct outer_job {
    view A, B;
    int sign;
    bool lower, add;
    real *R;
    int parts; /* every one of them gathers all fibres, so there are no more than threads */
} outer_job;

/* The blocks of R that are this part's, over some fibres: X has count of them. */
static void add_fibres(const la_kernels *k, const outer_job *job, int part, int64_t count, const real *X, real sign,
                       bool add)
{
    int64_t n = job->A.n;
    for (int64_t b = 0; b * k->block < n; b++) {
        if (!owns(b, part, job->parts)) continue;
        int64_t i = b * k->block, rows = smaller(k->block, n - i);
        int64_t left = job->lower ? 0 : i, right = job->lower ? i + rows : n;
        k->panel_product(&(la_panel_product){.rows = rows,
                                             .columns = right - left,
                                             .terms = 1,
                                             .depth = {count},
                                             .A = {X + i},
                                             .B = {X + left},
                                             .row = 1,
                                             .column = n,
                                             .b_ld = n,
                                             .c_ld = n,
                                             .alpha = sign,
                                             .add = add,
                                             .C = job->R + i * n + left});
    }
}

/* Returns whether R holds something now that the next is added to. */
static bool add_view(const outer_job *job, int part, const view *X, real sign, bool add)
{
    _Alignas(LINE) real gathered[GATHERED + LA_PANEL_BYTES / sizeof(real)];
    const la_kernels *k = la_kernel();
    int64_t n = X->n, max = smaller(MAX_GATHERED, GATHERED / n);
    fibres f = fibres_of(X);
    memset(gathered + n * smaller(max, f.each), 0, LA_PANEL_BYTES); /* read beyond the last fibre, for nothing */
    for (int64_t m = 0; m < f.matrices; m++) {
        for (int64_t from = 0; from < f.each; from += max) {
            int64_t count = smaller(max, f.each - from);
            k->gather(count, n, fibres_matrix(X, m) + from * f.fibre, f.entry, f.fibre, gathered);
            add_fibres(k, job, part, count, gathered, sign, add);
            add = true;
        }
    }
    return add;
}

static void outer_part(void *data, int64_t part)
{
    const outer_job *job = data;
    bool add = job->A.x ? add_view(job, (int)part, &job->A, 1, job->add) : job->add;
    if (job->B.x) (void)add_view(job, (int)part, &job->B, (real)job->sign, add);
}

void la_block_outer(view A, view B, int sign, bool lower, bool add, real *R)
{
    double work = (double)A.n * (double)A.n * (double)view_fibres(A) * (A.x && B.x ? 2 : 1);
    outer_job job = {A, B, sign, lower, add, R, effort(work) > LA_MIN_WORK ? la_threads() : 1};
    la_parallel(job.parts, effort(work), outer_part, &job);
}

/* Columns from .. of Q where they are not zero, with T cut to match. */
static void product_columns(const la_kernels *k, const la_tri *T, int64_t from, bool retract, real c, real *Q, real *P)
{
    int64_t ld = T->row, width = smaller(k->panel, T->n - from), top = T->lower ? from : 0;
    la_tri t = *T;
    t.n = T->lower ? T->n - from : from + width;
    t.T += top * (ld + 1);
    k->panel_load(t.n, width, Q + top * ld + from, ld, 1, P);
    for (int64_t i = 0; i < width; i++) { /* row from + i: its triangle is columns .. i or i .. */
        real *row = P + (from + i - top) * k->panel;
        if (T->lower) {
            for (int64_t j = i + 1; j < width; j++) row[j] = 0;
        } else {
            for (int64_t j = 0; j < i; j++) row[j] = 0;
        }
    }
    if (retract) {
        k->tri_retract(&t, width, c, P);
    } else {
        k->tri_mul(&t, width, P);
    }
    k->panel_store(t.n, width, P, Q + top * ld + from, ld, 1);
}

typedef struct product_job {
    panel_job base;
    la_tri T;
    bool retract;
    real c, *Q;
} product_job;

static void product_part(const panel_job *base, int64_t i, real *P)
{
    const product_job *job = (const product_job *)base;
    const la_kernels *k = la_kernel();
    int64_t count = (job->T.n + k->panel - 1) / k->panel; /* the longest first */
    product_columns(k, &job->T, (job->T.lower ? i : count - 1 - i) * k->panel, job->retract, job->c, job->Q, P);
}

void la_block_product(int64_t n, int64_t ld, bool lower, bool retract, real c, const real *T, real *Q)
{
    int64_t panel = la_kernel()->panel;
    product_job job = {{product_part}, {.T = T, .n = n, .row = ld, .column = 1, .lower = lower}, retract, c, Q};
    for_panels(&job.base, (n + panel - 1) / panel, n, (double)n * (double)n * (double)n / 3);
}

typedef struct gemm_job {
    panel_job base;
    const la_factors *factors;
    real alpha;
    bool add;
    real *C;
    int64_t ldc, cuts; /* of the rows of each panel */
} gemm_job;

/* Columns from .. of C, rows top .. bottom - 1. */
static void gemm_panel(const la_kernels *k, const gemm_job *job, int64_t from, int64_t top, int64_t bottom, real *P)
{
    const la_factors *f = job->factors;
    int64_t width = smaller(k->panel, f->n - from), row = f->ta ? 1 : f->lda;
    k->panel_load(f->k, width, f->tb ? f->B + from * f->ldb : f->B + from, f->tb ? 1 : f->ldb, f->tb ? f->ldb : 1, P);
    k->panel_product(&(la_panel_product){.rows = bottom - top,
                                         .columns = width,
                                         .terms = 1,
                                         .depth = {f->k},
                                         .A = {f->A + top * row},
                                         .B = {P},
                                         .row = row,
                                         .column = f->ta ? f->lda : 1,
                                         .b_ld = k->panel,
                                         .c_ld = job->ldc,
                                         .alpha = job->alpha,
                                         .add = job->add,
                                         .C = job->C + top * job->ldc + from});
}

static void gemm_part(const panel_job *base, int64_t i, real *P)
{
    const gemm_job *job = (const gemm_job *)base;
    const la_kernels *k = la_kernel();
    int64_t m = job->factors->m, blocks = (m + k->block - 1) / k->block, cuts = job->cuts, cut = i % cuts;
    gemm_panel(k, job, i / cuts * k->panel, blocks * cut / cuts * k->block,
               smaller(m, blocks * (cut + 1) / cuts * k->block), P);
}

/* Where there are few panels, a part is some of the rows of one. */
void la_block_gemm(const la_factors *f, real alpha, bool add, real *C, int64_t ldc)
{
    const la_kernels *k = la_kernel();
    double work = 2 * (double)f->m * (double)f->n * (double)f->k;
    int64_t panels = (f->n + k->panel - 1) / k->panel, cuts = smaller(FEW_PANELS / panels, f->m / (4 * k->block));
    gemm_job job = {{gemm_part}, f, alpha, add, C, ldc, cuts > 1 && effort(work) > LA_MIN_WORK ? cuts : 1};
    for_panels(&job.base, panels * job.cuts, f->k, work);
}
