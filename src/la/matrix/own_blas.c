/* own_blas.h by the kernels of panels.
 *
 * A panel of columns of op(B) at a time is copied and multiplied by all rows of A where they lie. A transposed A, whose
 * rows lie apart, is copied as well: a block of it stays in the second-level cache while the panels pass by, and all of
 * the inner dimension is done before the next rows, so that these rows of C stay cached too. Where only a triangle of C
 * is wanted, a panel is multiplied by the rows that reach into it and no others. */
#include "la/matrix/own_blas.h"
#include "la/array/dispatch.h"
#include "la/matrix/small_blas.h"

enum {
    LINE = 64,
    PANEL_ROW = LA_PANEL_BYTES / (int)sizeof(real),
    DEPTH = 128,                   /* entries and rows of a transposed A that are copied: */
    ROWS = 960 / (int)sizeof(real) /* whole blocks of every kernel, 120 KB, which must fit the stack */
};

/* What is wanted of C: entries (i, j) with j >= i, with j <= i, or all. */
typedef enum gemm_part { WHOLE, UPPER, LOWER } gemm_part;

/* Rows top .. of op(A), entries from .. of each. */
typedef struct gemm_block {
    int64_t top, rows, from, depth;
} gemm_block;

typedef struct gemm_result {
    gemm_part part;
    real alpha, *C;
    bool add;
    int64_t ldc;
} gemm_result;

/* A is the block, its rows row apart; P has room for a panel. Of a triangle it also writes what stands next to the
 * diagonal in the same panel. */
static void add_panels(const la_factors *f, const gemm_block *b, const real *A, int64_t row, real *P,
                       const gemm_result *r)
{
    const la_kernels *k = la_kernel();
    int64_t entry = f->tb ? 1 : f->ldb, column = f->tb ? f->ldb : 1;
    for (int64_t j = 0; j < f->n; j += k->panel) {
        int64_t width = smaller(k->panel, f->n - j), begin = 0, end = b->rows;
        if (r->part == LOWER) begin = larger(0, j - b->top);
        if (r->part == UPPER) end = smaller(b->rows, j + width - b->top);
        if (begin >= end) continue;
        k->panel_load(b->depth, width, f->B + b->from * entry + j * column, entry, column, P);
        k->panel_product(&(la_panel_product){.rows = end - begin,
                                             .columns = width,
                                             .terms = 1,
                                             .depth = {b->depth},
                                             .A = {A + begin * row},
                                             .B = {P},
                                             .row = row,
                                             .column = 1,
                                             .b_ld = k->panel,
                                             .c_ld = r->ldc,
                                             .alpha = r->alpha,
                                             .add = r->add,
                                             .C = r->C + (b->top + begin) * r->ldc + j});
    }
}

static void add_block(const la_factors *f, const gemm_block *b, const gemm_result *r)
{
    _Alignas(LINE) real P[LA_BLOCK_MAX * PANEL_ROW];
    add_panels(f, b, f->A + b->top * f->lda + b->from, f->lda, P, r);
}

static void add_transposed_block(const la_factors *f, const gemm_block *b, const gemm_result *r)
{
    _Alignas(LINE) real X[ROWS * DEPTH], P[DEPTH * PANEL_ROW];
    la_kernel()->gather(b->rows, b->depth, f->A + b->top + b->from * f->lda, f->lda, 1, X);
    add_panels(f, b, X, b->depth, P, r);
}

static void gemm(const la_factors *f, real beta, gemm_result r)
{
    gemm_block b;
    for (int64_t i = 0; i < f->m && (f->k == 0 || (beta != 0 && beta != 1)); i++) {
        real *row = r.C + i * r.ldc;
        int64_t from = r.part == UPPER ? i : 0, to = r.part == LOWER ? i + 1 : f->n;
        for (int64_t j = from; j < to; j++) row[j] = beta == 0 ? 0 : beta * row[j];
    }
    int64_t max_rows = f->ta ? ROWS : f->m, max_depth = f->ta ? DEPTH : LA_BLOCK_MAX;
    for (b.top = 0; b.top < f->m; b.top += b.rows) {
        b.rows = smaller(max_rows, f->m - b.top);
        for (b.from = 0; b.from < f->k; b.from += b.depth) {
            b.depth = smaller(max_depth, f->k - b.from);
            r.add = b.from > 0 || beta != 0;
            (f->ta ? add_transposed_block : add_block)(f, &b, &r);
        }
    }
}

void own_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B,
              int64_t ldb, real beta, real *C, int64_t ldc)
{
    la_factors f = {ta, tb, m, n, k, A, lda, B, ldb};
    if (n == 1 && m > 1 && ldc == 1) { /* as the row C', a panel is full */
        f = (la_factors){!tb, !ta, 1, m, k, B, ldb, A, lda};
        ldc = m;
    }
    gemm(&f, beta, (gemm_result){.part = WHOLE, .alpha = alpha, .C = C, .ldc = ldc});
}

void own_upper(int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B, int64_t ldb,
               real beta, real *C, int64_t ldc)
{
    la_factors f = {false, false, m, n, k, A, lda, B, ldb};
    gemm(&f, beta, (gemm_result){.part = UPPER, .alpha = alpha, .C = C, .ldc = ldc});
}

void own_syrk(bool lower, bool transpose, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, real beta,
              real *C, int64_t ldc)
{
    la_factors f = {transpose, !transpose, n, n, k, A, lda, A, lda};
    gemm(&f, beta, (gemm_result){.part = lower ? LOWER : UPPER, .alpha = alpha, .C = C, .ldc = ldc});
}

/* A triangle as it acts on fibres, and these: entry i of fibre j is x[i entry + j fibre]. */
typedef struct action {
    bool solve, right, turned; /* turned: entry (i, k) is T[k ldt + i] */
    int64_t ldt, count, ldx;
} action;

static void small_triangle(const action *a, const la_tri *t, real *x)
{
    _Alignas(LINE) real P[LA_BLOCK_MAX * PANEL_ROW];
    const la_kernels *k = la_kernel();
    int64_t entry = a->right ? 1 : a->ldx, fibre = a->right ? a->ldx : 1;
    for (int64_t from = 0; from < a->count; from += k->panel) {
        int64_t width = smaller(k->panel, a->count - from);
        k->panel_load(t->n, width, x + from * fibre, entry, fibre, P);
        (a->solve ? k->tri_solve : k->tri_mul)(t, width, P);
        k->panel_store(t->n, width, P, x + from * fibre, entry, fibre);
    }
}

/* to <- to +- M from, M rows x columns. */
static void add_rectangle(const action *a, const real *M, int64_t rows, int64_t columns, const real *from, real *to)
{
    real sign = a->solve ? -1 : 1;
    if (a->right) {
        own_gemm(false, !a->turned, a->count, rows, columns, sign, from, a->ldx, M, a->ldt, 1, to, a->ldx);
    } else {
        own_gemm(a->turned, false, rows, a->count, columns, sign, M, a->ldt, from, a->ldx, 1, to, a->ldx);
    }
}

/* By halves: [M11 0; M21 M22] or [M11 M12; 0 M22]. A product needs the old values of what it reads, a solve the new. */
static void triangle(const action *a, const la_tri *t, real *x)
{
    if (t->n <= LA_BLOCK_MAX) {
        small_triangle(a, t, x);
        return;
    }
    int64_t h = t->n / 2, g = t->n - h;
    real *x2 = x + h * (a->right ? 1 : a->ldx);
    la_tri first = *t, second = *t;
    first.n = h;
    second.n = g;
    second.T += h * (t->row + t->column);
    if (t->lower == a->solve) {
        triangle(a, &first, x);
    } else {
        triangle(a, &second, x2);
    }
    if (t->lower) {
        add_rectangle(a, t->T + h * t->row, g, h, x, x2);
    } else {
        add_rectangle(a, t->T + h * t->column, h, g, x2, x);
    }
    if (t->lower == a->solve) {
        triangle(a, &second, x2);
    } else {
        triangle(a, &first, x);
    }
}

/* The rows of X are multiplied from the right by what multiplies them as columns when transposed. */
void own_tri(const serial_tri_op *op, int64_t rows, int64_t columns, real *X, int64_t ldx)
{
    bool turned = op->transpose != op->right;
    action a = {op->solve, op->right, turned, op->ldt, op->right ? rows : columns, ldx};
    la_tri t = {.T = op->T,
                .n = op->right ? columns : rows,
                .row = turned ? 1 : op->ldt,
                .column = turned ? op->ldt : 1,
                .lower = op->lower != turned};
    triangle(&a, &t, X);
}
