/* A triangle on one or a few fibres, row by row: O(n^2) for an update, not O(n^3).
 *
 * All loops are written for an upper triangle. A lower one is the same with fibres and rows reversed, which loading and
 * storing the fibres does on the way. */
#include "group/leaf/tri.h"
#include "la/array/dispatch.h"
#include "la/matrix/blas.h"

#include <string.h>

/* x <- Q x, downward: row i needs old entries i.. */
static void packed_mul(const tri *t, const la_kernels *k, real *x)
{
    int64_t n = t->base.n;
    for (int64_t i = 0; i < n; i++) x[i] = (real)k->dot(n - i, psgd__tri_row(t, i), x + i);
}

/* x <- Q'x, upward: old entry i goes to entries i.. */
static void packed_mul_t(const tri *t, const la_kernels *k, real *x)
{
    int64_t n = t->base.n;
    for (int64_t i = n - 1; i >= 0; i--) {
        const real *row = psgd__tri_row(t, i);
        real old = x[i];
        x[i] = row[0] * old;
        k->axpy(n - i - 1, old, row + 1, x + i + 1);
    }
}

static void packed_solve(const tri *t, const la_kernels *k, real *x)
{
    int64_t n = t->base.n;
    for (int64_t i = n - 1; i >= 0; i--) {
        const real *row = psgd__tri_row(t, i);
        x[i] = (real)(((double)x[i] - k->dot(n - i - 1, row + 1, x + i + 1)) / (double)row[0]);
    }
}

static void packed_solve_t(const tri *t, const la_kernels *k, real *x)
{
    int64_t n = t->base.n;
    for (int64_t i = 0; i < n; i++) {
        const real *row = psgd__tri_row(t, i);
        x[i] /= row[0];
        k->axpy(n - i - 1, -x[i], row + 1, x + i + 1);
    }
}

void psgd__tri_packed_apply(const tri *t, group_act act, view X)
{
    static void (*const ops[])(const tri *, const la_kernels *, real *) = {
        [ACT_MUL] = packed_mul, [ACT_MUL_T] = packed_mul_t, [ACT_SOLVE] = packed_solve, [ACT_SOLVE_T] = packed_solve_t};
    const la_kernels *k = la_kernel();
    real *scratch = psgd__work_at(t->base.work, t->scratch);
    for (int64_t f = 0; f < view_fibres(X); f++) {
        real *x = lowrank_borrow(X, f, t->lower, scratch);
        ops[act](t, k, x);
        lowrank_return(X, f, t->lower, x);
    }
}

/* Reads the triangle once for each fibre. */
void psgd__tri_packed_square(const tri *t, view X)
{
    int64_t n = t->base.n;
    real *scratch = psgd__work_at(t->base.work, t->scratch), *y = scratch + n;
    for (int64_t f = 0; f < view_fibres(X); f++) {
        const real *x = lowrank_borrow(X, f, t->lower, scratch);
        memset(y, 0, (size_t)n * sizeof(real));
        la_kernel()->packed_square(n, t->base.q, x, y);
        lowrank_return(X, f, t->lower, y);
    }
}

void psgd__tri_packed_square_to(const tri *t, const real *x, real *y)
{
    int64_t n = t->base.n;
    if (x == y || t->lower) {
        if (x != y) memcpy(y, x, (size_t)n * sizeof(real));
        psgd__tri_packed_square(t, view_rows(y, n, 1));
        return;
    }
    memset(y, 0, (size_t)n * sizeof(real));
    la_kernel()->packed_square(n, t->base.q, x, y);
}

/* Reads the triangle once for each pair of fibres. */
void psgd__tri_packed_whiten(const tri *t, view A, view B)
{
    int64_t n = t->base.n;
    real *scratch = psgd__work_at(t->base.work, t->scratch);
    for (int64_t f = 0; f < view_fibres(A); f++) {
        real *a = lowrank_borrow(A, f, t->lower, scratch), *b = lowrank_borrow(B, f, t->lower, scratch + n);
        la_packed_form(n, t->base.q, a, b);
        lowrank_return(A, f, t->lower, a);
        lowrank_return(B, f, t->lower, b);
    }
}

/* x_i <- sum_k s_k y_ki sum_{j >= i} y_kj x_j: suffix sums; the transpose has prefix sums. */
static void r_mul_fibre(const real *R, int64_t n, bool prefix, real *x)
{
    double sum[LOWRANK_MAX] = {0};
    for (int64_t step = 0; step < n; step++) {
        int64_t i = prefix ? step : n - 1 - step;
        double to = 0;
        for (int k = 0; k < lowrank_count(R); k++) {
            double y = (double)lowrank_vector(R, n, k)[i];
            sum[k] += y * (double)x[i];
            to += (double)lowrank_sign(R, k) * y * sum[k];
        }
        x[i] = (real)to;
    }
}

void psgd__tri_packed_r_mul(const tri *t, const real *R, bool transpose, view X)
{
    real *scratch = psgd__work_at(t->base.work, t->scratch);
    for (int64_t f = 0; f < view_fibres(X); f++) {
        real *x = lowrank_borrow(X, f, t->lower, scratch);
        r_mul_fibre(R, t->base.n, transpose, x);
        lowrank_return(X, f, t->lower, x);
    }
}

bool psgd__tri_packed_inside(const tri *t, real c, const real *R)
{
    int64_t n = t->base.n;
    for (int64_t i = 0; i < n; i++) {
        double r = 0;
        for (int v = 0; v < lowrank_count(R); v++) {
            double x = (double)lowrank_vector(R, n, v)[i];
            r += (double)lowrank_sign(R, v) * x * x;
        }
        if (!((double)c * r < 1)) return false;
    }
    return true;
}

/* Row i of triu(xx')Q is x_i sum_{j >= i} x_j Q_j. Upward, with the sums of old rows kept as they grow, every row is
 * read and written once. */
static void retract_any(tri *t, real c, const real *R, real *sums)
{
    const la_kernels *k = la_kernel();
    int64_t n = t->base.n;
    int count = lowrank_count(R);
    memset(sums, 0, (size_t)(count * n) * sizeof(real));
    for (int64_t i = n - 1; i >= 0; i--) {
        real *row = psgd__tri_row(t, i);
        for (int v = 0; v < count; v++) k->axpy(n - i, lowrank_vector(R, n, v)[i], row, sums + v * n + i);
        for (int v = 0; v < count; v++) {
            k->axpy(n - i, -c * lowrank_sign(R, v) * lowrank_vector(R, n, v)[i], sums + v * n + i, row);
        }
    }
}

/* The same with two fibres of A and two of B, one call for each row. */
static void retract_four(tri *t, real c, const real *R, real *sums)
{
    const la_kernels *k = la_kernel();
    int64_t n = t->base.n;
    memset(sums, 0, (size_t)(4 * n) * sizeof(real));
    for (int64_t i = n - 1; i >= 0; i--) {
        real x[4], w[4];
        for (int v = 0; v < 4; v++) {
            x[v] = lowrank_vector(R, n, v)[i];
            w[v] = c * lowrank_sign(R, v) * x[v];
        }
        k->row_retract_four(n - i, x, w, psgd__tri_row(t, i), n, sums + i);
    }
}

void psgd__tri_packed_retract(tri *t, real c, const real *R)
{
    int64_t n = t->base.n;
    real *sums = psgd__work_at(t->base.work, t->scratch);
    bool one_pair = lowrank_count(R) == 2 && lowrank_sign(R, 0) == 1 && lowrank_sign(R, 1) == -1;
    if (one_pair) {
        la_packed_retract(n, c, lowrank_vector(R, n, 0), lowrank_vector(R, n, 1), sums, t->base.q);
    } else if (lowrank_count(R) == 4) {
        retract_four(t, c, R, sums);
    } else {
        retract_any(t, c, R, sums);
    }
}
