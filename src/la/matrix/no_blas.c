/* serial.h and la_invert without BLAS and LAPACK: products and triangles by the kernels of small_blas.h, the rest by
 * rotations and elimination in plain loops. */
#include "la/array/dispatch.h"
#include "la/matrix/blas.h"
#include "la/matrix/serial.h"
#include "la/matrix/small_blas.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LINE = 64, BAND = 96, MAX_SWEEPS = 60, PANEL_SIZE = LA_BLOCK_MAX * LA_PANEL_BYTES / (int)sizeof(real) };

void serial_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda,
                 const real *B, int64_t ldb, real beta, real *C, int64_t ldc)
{
    for (int64_t i = 0; i < m && (k == 0 || (beta != 0 && beta != 1)); i++) {
        for (int64_t j = 0; j < n; j++) C[i * ldc + j] = beta == 0 ? 0 : beta * C[i * ldc + j];
    }
    for (int64_t from = 0; from < k; from += LA_BLOCK_MAX) {
        const real *a = A + (ta ? from * lda : from), *b = B + (tb ? from : from * ldb);
        la_factors f = {ta, tb, m, n, smaller(LA_BLOCK_MAX, k - from), a, lda, b, ldb};
        la_block_gemm(&f, alpha, from > 0 || beta != 0, C, ldc);
    }
}

/* In bands of rows; of the other triangle the square on the diagonal is written as well. */
void serial_syrk(bool lower, bool transpose, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, real beta,
                 real *C, int64_t ldc)
{
    int64_t step = transpose ? 1 : lda;
    for (int64_t i = 0; i < n; i += BAND) {
        int64_t rows = smaller(BAND, n - i), left = lower ? 0 : i, width = lower ? i + rows : n - i;
        serial_gemm(transpose, !transpose, rows, width, k, alpha, A + i * step, lda, A + left * step, lda, beta,
                    C + i * ldc + left, ldc);
    }
}

/* A triangle as it acts on fibres, and these: entry i of fibre j is x[i entry + j fibre]. */
typedef struct action {
    bool solve, right, turned; /* turned: entry (i, k) is T[k ldt + i] */
    int64_t ldt, count, ldx;
} action;

static void small_triangle(const action *a, const la_tri *t, real *x)
{
    _Alignas(LINE) real P[PANEL_SIZE];
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
        serial_gemm(false, !a->turned, a->count, rows, columns, sign, from, a->ldx, M, a->ldt, 1, to, a->ldx);
    } else {
        serial_gemm(a->turned, false, rows, a->count, columns, sign, M, a->ldt, from, a->ldx, 1, to, a->ldx);
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
void serial_tri(const serial_tri_op *op, int64_t rows, int64_t columns, real *X, int64_t ldx)
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

static void swap(int64_t n, int64_t step, real *x, real *y)
{
    for (int64_t i = 0; i < n; i++) {
        real old = x[i * step];
        x[i * step] = y[i * step];
        y[i * step] = old;
    }
}

/* Gauss-Jordan elimination with row pivoting, in place. */
bool la_invert(int64_t n, real *M, int *pivots, real *work)
{
    const la_kernels *kernel = la_kernel();
    (void)work;
    for (int64_t k = 0; k < n; k++) {
        int64_t p = k;
        for (int64_t i = k + 1; i < n; i++) {
            if (fabs((double)M[i * n + k]) > fabs((double)M[p * n + k])) p = i;
        }
        real *row = M + k * n, pivot = M[p * n + k];
        if (pivot == 0) return false;
        if (p != k) swap(n, 1, row, M + p * n);
        pivots[k] = (int)p;
        row[k] = 1;
        kernel->scale(n, 1 / pivot, row);
        for (int64_t i = 0; i < n; i++) {
            real c = M[i * n + k];
            if (i == k) continue;
            M[i * n + k] = 0;
            kernel->axpy(n, -c, row, M + i * n);
        }
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        if (pivots[k] != k) swap(n, n, M + k, M + pivots[k]);
    }
    return true;
}

/* The rotation that makes [a g; g b] diagonal: x <- cx - sy, y <- sx + cy. */
typedef struct rotation {
    double c, s;
} rotation;

static rotation rotation_for(double a, double b, double g)
{
    double z = (b - a) / (2 * g), t = copysign(1, z) / (fabs(z) + hypot(z, 1)), c = 1 / hypot(t, 1);
    return (rotation){c, c * t};
}

static void rotate(rotation r, int64_t n, int64_t step, real *x, real *y)
{
    for (int64_t i = 0; i < n; i++) {
        double a = (double)x[i * step], b = (double)y[i * step];
        x[i * step] = (real)(r.c * a - r.s * b);
        y[i * step] = (real)(r.s * a + r.c * b);
    }
}

/* Jacobi's method on one side: rows are rotated until they are orthogonal; their lengths are the singular values. */
bool serial_singular(int64_t n, real *M, real *values, real *work)
{
    const la_kernels *k = la_kernel();
    bool rotated = true;
    (void)work;
    for (int sweep = 0; rotated && sweep < MAX_SWEEPS; sweep++) {
        rotated = false;
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) {
                real *x = M + p * n, *y = M + q * n;
                double a = k->dot(n, x, x), b = k->dot(n, y, y), g = k->dot(n, x, y);
                if (!(fabs(g) > 4 * (double)REAL_EPSILON * sqrt(a * b))) continue;
                rotate(rotation_for(a, b, g), n, 1, x, y);
                rotated = true;
            }
        }
    }
    for (int64_t i = 0; i < n; i++) {
        real length = (real)sqrt(k->dot(n, M + i * n, M + i * n));
        int64_t at = i;
        for (; at > 0 && values[at - 1] < length; at--) values[at] = values[at - 1];
        values[at] = length;
    }
    return n == 0 || isfinite((double)values[0]);
}

/* Jacobi's method: M <- JMJ' until it is diagonal, V <- JV. */
bool serial_sym_eigen(int64_t n, real *M, real *values, real *work)
{
    real *V = work + 34 * n;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) M[j * n + i] = M[i * n + j];
    }
    double size = sqrt(la_kernel()->dot(n * n, M, M)) / (double)n;
    bool rotated = true;
    memset(V, 0, (size_t)(n * n) * sizeof *V);
    for (int64_t i = 0; i < n; i++) V[i * (n + 1)] = 1;
    for (int sweep = 0; rotated && sweep < MAX_SWEEPS; sweep++) {
        rotated = false;
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) {
                double g = (double)M[p * n + q];
                if (!(fabs(g) > (double)REAL_EPSILON * size)) continue;
                rotation r = rotation_for((double)M[p * (n + 1)], (double)M[q * (n + 1)], g);
                rotate(r, n, 1, M + p * n, M + q * n);
                rotate(r, n, n, M + p, M + q);
                rotate(r, n, 1, V + p * n, V + q * n);
                rotated = true;
            }
        }
    }
    for (int64_t i = 0; i < n; i++) values[i] = M[i * (n + 1)];
    for (int64_t i = 0; i < n; i++) {
        int64_t min = i;
        for (int64_t j = i + 1; j < n; j++) min = values[j] < values[min] ? j : min;
        swap(1, 1, values + i, values + min);
        if (min != i) swap(n, 1, V + i * n, V + min * n);
    }
    memcpy(M, V, (size_t)(n * n) * sizeof *M);
    return !rotated && isfinite(size);
}
