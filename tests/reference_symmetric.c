/* Symmetric matrices in plain float64: eigenvalues by Jacobi's rotations, powers, and the matrix that PSGD fits. O(n^3)
 * a sweep, for the small matrices of tests. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *square(int64_t n)
{
    return calloc((size_t)(n * n + 1), sizeof(double));
}

/* A <- J'AJ and U <- UJ, where J turns the axes p and q such that A_pq = 0. */
static void rotate(int64_t n, int64_t p, int64_t q, double *A, double *U)
{
    double apq = A[p * n + q];
    if (apq == 0) return;
    double tau = (A[q * n + q] - A[p * n + p]) / (2 * apq);
    double t = (tau < 0 ? -1 : 1) / (fabs(tau) + sqrt(1 + tau * tau)), c = 1 / sqrt(1 + t * t), s = t * c;
    for (int64_t k = 0; k < n; k++) {
        double x = A[k * n + p], y = A[k * n + q], u = U[k * n + p], w = U[k * n + q];
        A[k * n + p] = c * x - s * y;
        A[k * n + q] = s * x + c * y;
        U[k * n + p] = c * u - s * w;
        U[k * n + q] = s * u + c * w;
    }
    for (int64_t k = 0; k < n; k++) {
        double x = A[p * n + k], y = A[q * n + k];
        A[p * n + k] = c * x - s * y;
        A[q * n + k] = s * x + c * y;
    }
    A[p * n + q] = A[q * n + p] = 0;
}

static void swap_columns(int64_t n, int64_t i, int64_t j, double *values, double *U)
{
    double value = values[i];
    values[i] = values[j];
    values[j] = value;
    for (int64_t k = 0; k < n; k++) {
        double u = U[k * n + i];
        U[k * n + i] = U[k * n + j];
        U[k * n + j] = u;
    }
}

void ref_eigen(int64_t n, const double *A, double *values, double *U)
{
    double *M = square(n);
    for (int64_t i = 0; i < n * n; i++) M[i] = (A[i] + A[i % n * n + i / n]) / 2;
    for (int64_t i = 0; i < n * n; i++) U[i] = i / n == i % n;
    for (int sweep = 0; sweep < 40; sweep++) { /* it converges quadratically: ten suffice */
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) rotate(n, p, q, M, U);
        }
    }
    for (int64_t i = 0; i < n; i++) values[i] = M[i * n + i];
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++) {
            if (values[j] < values[i]) swap_columns(n, i, j, values, U);
        }
    }
    free(M);
}

void ref_power(int64_t n, const double *A, double power, double *B)
{
    double *values = square(n), *U = square(n);
    ref_eigen(n, A, values, U);
    for (int64_t i = 0; i < n; i++) values[i] = pow(values[i], power);
    for (int64_t i = 0; i < n * n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++) sum += U[i / n * n + k] * values[k] * U[i % n * n + k];
        B[i] = sum;
    }
    free(values);
    free(U);
}

void ref_matching(int64_t n, const double *A, const double *V, double *P)
{
    double *root = square(n), *left = square(n), *M = square(n);
    ref_power(n, V, 0.5, root);
    ref_multiply(n, n, n, root, A, left);
    ref_multiply(n, n, n, left, root, M);
    ref_power(n, M, -0.5, M);
    ref_multiply(n, n, n, root, M, left);
    ref_multiply(n, n, n, left, root, P);
    free(root);
    free(left);
    free(M);
}
