/* Large products on views, shared out by the thread pool: each part is one call on one thread.
 *
 * Sizes up to LA_BLOCK_MAX have kernels of their own: see small_blas.h. A view is either row-major matrices whose rows
 * are fibres (inner = 1: Q acts from the right, transposed) or matrices whose columns are fibres (Q acts from the
 * left). How a product is cut depends on its sizes alone, so its bits do not depend on the number of threads. */
#include "la/matrix/blas.h"
#include "la/la.h"
#include "la/matrix/serial.h"
#include "la/matrix/small_blas.h"
#include "la/pool.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { GRAIN = 16 }; /* parts begin at multiples of it */

/* Parts of that many multiplications. Every part packs its operands for itself, so there are few as long as they are
 * small. */
static int64_t parts_of(double work)
{
    if (work < 0x1p19) return 1;
    if (work < 0x1p31) return 4;
    return work < 0x1p35 ? 8 : (int64_t)(work / 0x1p32);
}

/* la_parallel counts in operations of a plain loop; a product does about ten of its own in that time. */
static double effort(double work)
{
    return work / 5;
}

/* Where part i of so many begins, in a length. */
static int64_t cut(int64_t length, int64_t i, int64_t parts)
{
    return i == parts ? length : length * i / parts / GRAIN * GRAIN;
}

/* Fibres further apart than BLAS can count. */
static bool far_apart(view X)
{
    return X.inner == 1 && X.ld > INT_MAX;
}

/* They are taken one by one. */
static view one_by_one(view X)
{
    int64_t count = X.outer, spacing = X.ld;
    X.outer = 1;
    X.ld = X.n;
    return count > 1 ? view_repeat(X, count, spacing) : X;
}

/* Multiplications of a product between which our kernels are faster, two threads being about twice as fast as one. */
enum { TINY_PRODUCT = 1 << 16, SMALL_PRODUCT = 1 << 25 };

static bool product_is_small(int64_t m, int64_t n, int64_t k)
{
    double work = (double)m * (double)n * (double)k;
    return k <= LA_BLOCK_MAX && m > 1 && n > 1 && work > TINY_PRODUCT && work <= SMALL_PRODUCT;
}

void la_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B,
             int64_t ldb, real beta, real *C, int64_t ldc)
{
    if (product_is_small(m, n, k) && (beta == 0 || beta == 1)) {
        la_block_gemm(&(la_factors){ta, tb, m, n, k, A, lda, B, ldb}, alpha, beta == 1, C, ldc);
        return;
    }
    la_blas_gemm(ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

typedef struct gemm_job {
    la_factors f;
    real alpha, beta, *C;
    int64_t ldc, rows, columns; /* the grid of parts */
} gemm_job;

static void gemm_part(void *data, int64_t i)
{
    const gemm_job *job = data;
    const la_factors *f = &job->f;
    int64_t r = i / job->columns, c = i % job->columns;
    int64_t top = cut(f->m, r, job->rows), left = cut(f->n, c, job->columns);
    serial_gemm(f->ta, f->tb, cut(f->m, r + 1, job->rows) - top, cut(f->n, c + 1, job->columns) - left, f->k,
                job->alpha, f->A + (f->ta ? top : top * f->lda), f->lda, f->B + (f->tb ? left * f->ldb : left), f->ldb,
                job->beta, job->C + top * job->ldc + left, job->ldc);
}

/* Parts as square as they can be are packed the least. */
void la_blas_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda,
                  const real *B, int64_t ldb, real beta, real *C, int64_t ldc)
{
    double work = (double)m * (double)n * (double)k;
    int64_t parts = parts_of(work), rows = 1, columns = 1;
    while (rows * columns < parts && (m >= 4 * GRAIN * rows || n >= 4 * GRAIN * columns)) {
        if (m / rows >= n / columns) {
            rows *= 2;
        } else {
            columns *= 2;
        }
    }
    gemm_job job = {{ta, tb, m, n, k, A, lda, B, ldb}, alpha, beta, C, ldc, rows, columns};
    la_parallel(rows * columns, effort(work), gemm_part, &job);
}

/* X and Y, both one by one where a pair of matrices of theirs is too far apart. */
static void bring_together(view *X, view *Y)
{
    if (!far_apart(*X) && !far_apart(*Y)) return;
    *X = one_by_one(*X);
    *Y = one_by_one(*Y);
}

void la_mat_add_mul(const real *M, int64_t columns, bool transpose, real alpha, view X, real beta, view Y)
{
    bring_together(&X, &Y);
    fibres f = fibres_of(&X);
    for (int64_t m = 0; m < f.matrices; m++) {
        real *x = fibres_matrix(&X, m), *y = fibres_matrix(&Y, m);
        if (X.inner == 1) {
            la_gemm(false, !transpose, f.each, Y.n, X.n, alpha, x, X.ld, M, columns, beta, y, Y.ld);
        } else {
            la_gemm(transpose, false, Y.n, f.each, X.n, alpha, M, columns, x, X.inner, beta, y, Y.inner);
        }
    }
}

typedef struct tri_job {
    serial_tri_op op; /* for X from the right where the rows of X are fibres */
    view X;
    fibres f;
    int64_t stripes; /* of fibres, of each matrix */
} tri_job;

static void tri_part(void *data, int64_t i)
{
    const tri_job *job = data;
    int64_t s = i % job->stripes, from = cut(job->f.each, s, job->stripes);
    int64_t count = cut(job->f.each, s + 1, job->stripes) - from, n = job->X.n;
    real *x = fibres_matrix(&job->X, i / job->stripes) + from * job->f.fibre;
    if (count == 0) return;
    if (job->op.right) {
        serial_tri(&job->op, count, n, x, job->X.ld);
    } else {
        serial_tri(&job->op, n, count, x, job->X.inner);
    }
}

/* X <- op(T) X or op(T)^-1 X; parts are stripes of fibres. */
static void tri(const real *T, bool lower, bool transpose, bool solve, view X)
{
    if (X.n <= LA_BLOCK_MAX) {
        la_block_tri(T, lower, 1, &(la_block_op){.X = X, .solve = solve, .count = 1, .transpose = {transpose}});
        return;
    }
    if (far_apart(X)) X = one_by_one(X);
    bool right = X.inner == 1;
    tri_job job = {{solve, right, lower, transpose != right, T, X.n}, X, fibres_of(&X), 1};
    double work = (double)X.n * (double)X.n / 2 * (double)view_fibres(X);
    int64_t parts = parts_of(work / 8), narrow = 384; /* each stripe packs all of T */
    if (job.f.matrices == 1 && parts > 1 && job.f.each >= 4 * GRAIN) job.stripes = 2;
    while (job.f.matrices * job.stripes < parts && job.f.each >= narrow * job.stripes) job.stripes *= 2;
    la_parallel(job.f.matrices * job.stripes, effort(work), tri_part, &job);
}

void la_tri_mul(const real *T, bool lower, bool transpose, view X)
{
    tri(T, lower, transpose, false, X);
}

void la_tri_solve(const real *T, bool lower, bool transpose, view X)
{
    tri(T, lower, transpose, true, X);
}

void la_tri_form(const real *T, bool lower, view A, view B)
{
    if (A.n <= LA_BLOCK_MAX) {
        la_block_op of_B = {.X = B, .solve = true, .count = 1, .transpose = {true}}, of_A = {.X = A, .count = 1};
        la_block_tri(T, lower, 2, (la_block_op[]){of_B, of_A});
        return;
    }
    la_tri_mul(T, lower, false, A);
    la_tri_solve(T, lower, true, B);
}

void la_tri_square(const real *T, bool lower, view X)
{
    if (X.n <= LA_BLOCK_MAX) {
        la_block_tri(T, lower, 1, &(la_block_op){.X = X, .count = 2, .transpose = {false, true}});
        return;
    }
    la_tri_mul(T, lower, false, X);
    la_tri_mul(T, lower, true, X);
}

typedef struct outer_job {
    view A, B;
    int sign;
    bool lower, add;
    real *R;
    int64_t bands; /* of rows of R */
} outer_job;

/* Where band i begins: bands have the same share of the triangle. */
static int64_t band_start(const outer_job *job, int64_t i)
{
    double n = (double)job->A.n, share = (double)i / (double)job->bands;
    if (i == job->bands) return job->A.n;
    return (int64_t)(job->lower ? n * sqrt(share) : n - n * sqrt(1 - share)) / GRAIN * GRAIN;
}

/* Rows top .. bottom - 1 of the triangle: a square on the diagonal and a rectangle next to it. Returns whether R holds
 * something now that the next is added to. */
static bool outer_rows(const outer_job *job, const view *X, real alpha, bool add, int64_t top, int64_t bottom)
{
    int64_t n = X->n, left = job->lower ? 0 : bottom, width = job->lower ? top : n - bottom, rows = bottom - top;
    bool turned = X->inner == 1; /* X is fibres x n */
    int64_t ld = turned ? X->ld : X->inner, step = turned ? 1 : X->inner;
    fibres f = fibres_of(X);
    for (int64_t m = 0; m < f.matrices; m++) {
        const real *x = fibres_matrix(X, m), *own = x + top * step;
        real beta = add ? 1 : 0, *R = job->R + top * n;
        serial_syrk(job->lower, turned, rows, f.each, alpha, own, ld, beta, R + top, n);
        if (width) {
            serial_gemm(turned, !turned, rows, width, f.each, alpha, own, ld, x + left * step, ld, beta, R + left, n);
        }
        add = true;
    }
    return add;
}

static void outer_part(void *data, int64_t i)
{
    const outer_job *job = data;
    int64_t top = band_start(job, i), bottom = band_start(job, i + 1);
    bool add = job->add;
    if (top == bottom) return;
    if (job->A.x) add = outer_rows(job, &job->A, 1, add, top, bottom);
    if (job->B.x) outer_rows(job, &job->B, (real)job->sign, add, top, bottom);
}

void la_sym_outer(view A, view B, int sign, bool lower, bool accumulate, real *R)
{
    int64_t n = A.n;
    if (!A.x && !B.x) {
        if (!accumulate) memset(R, 0, (size_t)(n * n) * sizeof(real));
        return;
    }
    if (n <= LA_BLOCK_MAX) {
        la_block_outer(A, B, sign, lower, accumulate, R);
        return;
    }
    if (far_apart(A)) A = one_by_one(A);
    if (far_apart(B)) B = one_by_one(B);
    double work = (double)n * (double)n / 2 * (double)(view_fibres(A) + (A.x && B.x ? view_fibres(B) : 0));
    outer_job job = {A, B, sign, lower, accumulate, R, parts_of(work)};
    la_parallel(job.bands, effort(work), outer_part, &job);
}

typedef struct half_job {
    outer_job bands; /* of rows of the triangle */
    int64_t n;
    real alpha;
    const real *A, *B;
    real *C;
} half_job;

static void half_part(void *data, int64_t i)
{
    const half_job *job = data;
    int64_t n = job->n, top = band_start(&job->bands, i), rows = band_start(&job->bands, i + 1) - top;
    if (rows == 0) return;
    serial_upper(rows, n - top, n, job->alpha, job->A + top * n, n, job->B + top, n, 1, job->C + top * n + top, n);
}

void la_sym_product(int64_t n, real alpha, const real *A, const real *B, real *C)
{
    double work = (double)n * (double)n * (double)n / 2;
    if (product_is_small(n, n, n)) {
        la_gemm(false, false, n, n, n, alpha, A, n, B, n, 1, C, n);
        return;
    }
    half_job job = {.n = n, .alpha = alpha, .A = A, .B = B, .C = C};
    job.bands = (outer_job){.A = {.n = n}, .bands = larger(8, parts_of(work))};
    la_parallel(job.bands.bands, effort(work), half_part, &job);
}

void la_cross_outer(view X, view Y, real alpha, real beta, real *R)
{
    bring_together(&X, &Y);
    fibres f = fibres_of(&X);
    bool turned = X.inner == 1; /* X is fibres x n */
    for (int64_t m = 0; m < f.matrices; m++) {
        la_gemm(turned, !turned, X.n, Y.n, f.each, alpha, fibres_matrix(&X, m), turned ? X.ld : X.inner,
                fibres_matrix(&Y, m), turned ? Y.ld : Y.inner, m ? 1 : beta, R, Y.n);
    }
}

/* The corner of a product of two triangles: Tc <- Tc Q, then Qc <- T Qc + Tc. */
typedef struct corner_job {
    serial_tri_op by_Q, by_T;
    int64_t rows, columns, ld, parts;
    real *Tc, *Qc;
} corner_job;

static void corner_rows(void *data, int64_t i)
{
    const corner_job *job = data;
    int64_t from = cut(job->rows, i, job->parts), count = cut(job->rows, i + 1, job->parts) - from;
    if (count) serial_tri(&job->by_Q, count, job->columns, job->Tc + from * job->ld, job->ld);
}

static void corner_columns(void *data, int64_t part)
{
    const corner_job *job = data;
    int64_t from = cut(job->columns, part, job->parts), count = cut(job->columns, part + 1, job->parts) - from;
    if (!count) return;
    serial_tri(&job->by_T, job->rows, count, job->Qc + from, job->ld);
    for (int64_t i = 0; i < job->rows; i++) {
        real *to = job->Qc + i * job->ld + from;
        const real *own = job->Tc + i * job->ld + from;
        for (int64_t j = 0; j < count; j++) to[j] += own[j];
    }
}

/* Q <- TQ. [T11 T12; 0 T22] [Q11 Q12; 0 Q22]: the corner is T11 Q12 + T12 Q22, then each half by itself. Lower
 * triangles are the same with the halves exchanged. T is destroyed. */
static void tri_product(int64_t n, int64_t ld, bool lower, real *T, real *Q)
{
    if (n <= LA_BLOCK_MAX) {
        la_block_product(n, ld, lower, false, 0, T, Q);
        return;
    }
    int64_t h = n / 2, g = n - h;
    double work = (double)h * (double)h * (double)h / 2;
    real *T22 = T + h * ld + h, *Q22 = Q + h * ld + h;
    corner_job job = {.by_Q = {.right = true, .lower = lower, .T = lower ? Q : Q22, .ldt = ld},
                      .by_T = {.lower = lower, .T = lower ? T22 : T, .ldt = ld},
                      .rows = lower ? g : h,
                      .columns = lower ? h : g,
                      .ld = ld,
                      .parts = parts_of(work / 8),
                      .Tc = lower ? T + h * ld : T + h,
                      .Qc = lower ? Q + h * ld : Q + h};
    la_parallel(job.parts, effort(work), corner_rows, &job);
    la_parallel(job.parts, effort(work), corner_columns, &job);
    tri_product(h, ld, lower, T, Q);
    tri_product(g, ld, lower, T22, Q22);
}

void la_tri_retract(int64_t n, bool lower, real c, real *R, real *Q)
{
    if (n <= LA_BLOCK_MAX) {
        la_block_product(n, n, lower, true, c, R, Q);
        return;
    }
    la_scale(n * n, -c, R);
    for (int64_t i = 0; i < n; i++) R[i * n + i] += 1;
    tri_product(n, n, lower, R, Q);
}
