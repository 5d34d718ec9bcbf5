/* The estimate of DESIGN.md of the norm of a dense unit, in double, from the vectors that the library draws: for
 * ref_options. Only for typed tests. */
#ifndef PSGD_TESTS_NORM_ESTIMATE_H
#define PSGD_TESTS_NORM_ESTIMATE_H

#include "reference.h"

#include "core/rng.h"
#include "la/array/normal.h"

#include <math.h>
#include <stdlib.h>

typedef struct estimate_data {
    int64_t updates; /* before this one */
    int64_t pairs;   /* max number, as the option says */
    bool integrate;
} estimate_data;

/* V <- V M, k x n times n x n. */
static inline void estimate_multiply(int64_t k, int64_t n, const double *M, double *V, double *W)
{
    ref_multiply(k, n, n, V, M, W);
    for (int64_t i = 0; i < k * n; i++) V[i] = W[i];
}

static inline double estimate_length(int64_t n, const double *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* Of an R from four fibres or fewer the library knows the vectors, and the norm exactly. */
static inline double estimate_norm(void *data, const ref_node *node, int unit, bool skew, const double *M)
{
    enum { ROWS = 32 };
    const estimate_data *e = data;
    int64_t n = node->n, row = 0;
    bool few = node->fibres * e->pairs + (e->integrate ? 2 * n : 0) <= 4;
    if (few && !skew) return ref_spectral_norm(n, M);

    double scale = 0, max = 0;
    for (int64_t i = 0; i < n * n; i++) scale = fmax(scale, fabs(M[i]));
    if (scale == 0) return 0;
    double *V = calloc((size_t)(ROWS * n), sizeof(double)), *W = calloc((size_t)(ROWS * n), sizeof(double));
    double *A = calloc((size_t)(n * n), sizeof(double));
    real *drawn = calloc((size_t)(ROWS * n), sizeof(real));
    for (int64_t i = 0; i < n * n; i++) A[i] = M[i] / scale;
    for (int64_t i = 1; i < n; i++) row = estimate_length(n, A + i * n) > estimate_length(n, A + row * n) ? i : row;
    rng_stream stream = psgd__rng_stream(0, RNG_ESTIMATE, (uint64_t)unit, (uint64_t)e->updates);
    la_normal(&stream, 0, ROWS * n, drawn);
    for (int i = 0; i < ROWS; i++) {
        double along = 0;
        for (int64_t j = 0; j < n; j++) along += A[row * n + j] * (double)drawn[i * n + j];
        for (int64_t j = 0; j < n; j++) {
            V[i * n + j] = A[row * n + j] + (along < 0 ? -1 : 1) * (double)drawn[i * n + j];
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        estimate_multiply(ROWS, n, A, V, W);
        for (int i = 0; i < ROWS; i++) {
            double length = estimate_length(n, V + i * n);
            for (int64_t j = 0; length > 0 && j < n; j++) V[i * n + j] /= length;
        }
        estimate_multiply(ROWS, n, A, V, W);
    }
    for (int i = 0; i < ROWS; i++) max = fmax(max, estimate_length(n, V + i * n));
    free(V);
    free(W);
    free(A);
    free(drawn);
    return max * scale;
}

#endif
