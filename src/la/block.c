#include "la/block.h"
#include "la/dispatch.h"

#include <omp.h>
#include <string.h>

enum {
    LINE = 64,
    PANEL_NUMBERS = LA_BLOCK_MOST * LA_PANEL_BYTES / (int)sizeof(real),
    GATHERED = 1 << 15, /* numbers of fibres that are gathered at a time */
    MOST_GATHERED = 128 /* fibres: with a block of R they fit the first-level cache */
};

static const double PARALLEL = 1e6; /* flops below which one thread is faster */

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The fibres of a view as matrices: entry i of fibre j of one is x[i entry + j fibre]. */
typedef struct fibres {
    int64_t matrices, each, entry, fibre;
} fibres;

static fibres fibres_of(const view *X)
{
    return X->inner == 1 ? (fibres){X->blocks, X->outer, 1, X->pitch}
                         : (fibres){X->blocks * X->outer, X->inner, X->inner, 1};
}

/* Matrix m of the view as fibres_of counts them. */
static real *matrix(const view *X, int64_t m)
{
    return X->inner == 1 ? X->x + (X->levels ? view_block_at(X, m) : 0) : view_matrix(X, m);
}

static void one_panel(const la_kernels *k, const real *T, bool lower, const la_block_op *op, int64_t m, int64_t from,
                      int64_t width)
{
    _Alignas(LINE) real P[PANEL_NUMBERS];
    int64_t n = op->X.n;
    fibres f = fibres_of(&op->X);
    real *x = matrix(&op->X, m) + from * f.fibre;
    k->panel_load(n, width, x, f.entry, f.fibre, P);
    for (int i = 0; i < op->count; i++) {
        bool turned = op->transpose[i];
        la_tri t = {.T = T, .n = n, .row = turned ? 1 : n, .column = turned ? n : 1, .lower = lower != turned};
        (op->solve ? k->tri_solve : k->tri_mul)(&t, width, P);
    }
    k->panel_store(n, width, P, x, f.entry, f.fibre);
}

/* Half panels of one op. */
static int64_t halves(const la_kernels *k, const la_block_op *op)
{
    fibres f = fibres_of(&op->X);
    return f.matrices * ((2 * f.each + k->panel - 1) / k->panel);
}

/* Half panels first .. last - 1, two at a time where they are neighbours. */
static void some_halves(const la_kernels *k, const real *T, bool lower, const la_block_op *op, int64_t first,
                        int64_t last)
{
    fibres f = fibres_of(&op->X);
    int64_t half = k->panel / 2, row = (f.each + half - 1) / half;
    for (int64_t at = first; at < last;) {
        int64_t within = at % row, take = smaller(2, smaller(last - at, row - within)), from = within * half;
        one_panel(k, T, lower, op, at / row, from, smaller(take * half, f.each - from));
        at += take;
    }
}

/* Each thread takes fibres that are neighbours: none writes near another, and of two ops each thread has one, if they
 * are of the same shape, as it had in the call before. */
void la_block_tri(const real *T, bool lower, int count, const la_block_op *ops)
{
    const la_kernels *k = la_kernel();
    int64_t total = 0;
    double work = 0;
    for (int i = 0; i < count; i++) {
        total += halves(k, &ops[i]);
        work += (double)ops[i].X.n * (double)ops[i].X.n * (double)view_fibres(ops[i].X) * ops[i].count;
    }
#pragma omp parallel if (total > 1 && work > PARALLEL)
    {
        int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        int64_t first = total * thread / threads, last = total * (thread + 1) / threads;
        for (int i = 0; i < count; i++) {
            int64_t own = halves(k, &ops[i]);
            some_halves(k, T, lower, &ops[i], first > 0 ? first : 0, smaller(last, own));
            first -= own;
            last -= own;
        }
    }
}

/* Rows of R go to the threads in turn, there and back, so that long and short ones are shared evenly. */
static bool owns(int64_t index, int thread, int threads)
{
    int64_t turn = index % (2 * threads);
    return (turn < threads ? turn : 2 * threads - 1 - turn) == thread;
}

/* The blocks of R that are this thread's, over some fibres: X has count of them. */
static void add_fibres(const la_kernels *k, int64_t n, int64_t count, const real *X, real sign, bool lower, bool add,
                       real *R)
{
    int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    for (int64_t b = 0; b * k->block < n; b++) {
        if (!owns(b, thread, threads)) continue;
        int64_t i = b * k->block, rows = smaller(k->block, n - i), left = lower ? 0 : i, right = lower ? i + rows : n;
        k->outer(rows, right - left, X + i, X + left, count, n, sign, add, n, R + i * n + left);
    }
}

static bool add_view(const la_kernels *k, const view *X, real sign, bool lower, bool add, real *R)
{
    _Alignas(LINE) real gathered[GATHERED + LA_PANEL_BYTES / sizeof(real)];
    int64_t n = X->n, most = smaller(MOST_GATHERED, GATHERED / n);
    fibres f = fibres_of(X);
    memset(gathered + n * smaller(most, f.each), 0, LA_PANEL_BYTES); /* read beyond the last fibre, for nothing */
    for (int64_t m = 0; m < f.matrices; m++) {
        for (int64_t from = 0; from < f.each; from += most) {
            int64_t count = smaller(most, f.each - from);
            k->gather(count, n, matrix(X, m) + from * f.fibre, f.entry, f.fibre, gathered);
            add_fibres(k, n, count, gathered, sign, lower, add, R);
            add = true;
        }
    }
    return add;
}

void la_block_outer(view A, view B, int sign, bool lower, bool add, real *R)
{
    const la_kernels *k = la_kernel();
    double work = (double)A.n * (double)A.n * (double)view_fibres(A) * (A.x && B.x ? 2 : 1);
#pragma omp parallel if (work > PARALLEL)
    {
        bool more = A.x ? add_view(k, &A, 1, lower, add, R) : add;
        if (B.x) (void)add_view(k, &B, (real)sign, lower, more, R);
    }
}

/* Columns from .. of Q where they are not zero, with T cut to match. */
static void product_columns(const la_kernels *k, const la_tri *T, int64_t from, bool retract, real c, real *Q)
{
    _Alignas(LINE) real P[PANEL_NUMBERS];
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

void la_block_product(int64_t n, int64_t ld, bool lower, bool retract, real c, const real *T, real *Q)
{
    const la_kernels *k = la_kernel();
    la_tri t = {.T = T, .n = n, .row = ld, .column = 1, .lower = lower};
    int64_t count = (n + k->panel - 1) / k->panel;
    double work = (double)n * (double)n * (double)n / 3;
#pragma omp parallel for schedule(dynamic, 1) if (count > 1 && work > PARALLEL)
    for (int64_t i = 0; i < count; i++) { /* the longest first */
        product_columns(k, &t, (lower ? i : count - 1 - i) * k->panel, retract, c, Q);
    }
}
