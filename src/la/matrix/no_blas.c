/* serial.h and la_invert without BLAS and LAPACK: products and triangles by own_blas.h, the rest by rotations and
 * elimination in plain loops. */
#include "la/array/dispatch.h"
#include "la/matrix/blas.h"
#include "la/matrix/own_blas.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_SWEEPS = 60 };

void serial_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda,
                 const real *B, int64_t ldb, real beta, real *C, int64_t ldc)
{
    own_gemm(ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

void serial_upper(int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B, int64_t ldb,
                  real beta, real *C, int64_t ldc)
{
    own_upper(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

void serial_syrk(bool lower, bool transpose, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, real beta,
                 real *C, int64_t ldc)
{
    own_syrk(lower, transpose, n, k, alpha, A, lda, beta, C, ldc);
}

void serial_tri(const serial_tri_op *op, int64_t rows, int64_t columns, real *X, int64_t ldx)
{
    own_tri(op, rows, columns, X, ldx);
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
