/* Products and triangles of own_blas.h, and those of serial.h, which may be a BLAS's, against plain loops in double. */
#include "support.h"

#include <float.h>

#include "la/matrix/blas.h"
#include "la/matrix/own_blas.h"

enum { PAD = 3 }; /* columns next to the result, which nobody may write */

static real *new_matrix(uint64_t *seed, int64_t size)
{
    real *x = malloc((size_t)(size + 1) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < size; i++) x[i] = (real)random_normal(seed);
    return x;
}

static void assert_near(double got, double want, double size)
{
    assert_true(fabs(got - want) <= 40 * (double)REAL_EPSILON * size);
}

typedef struct product {
    bool ta, tb;
    int64_t m, n, k;
    const real *A, *B;
} product;

static double entry(const product *p, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t l = 0; l < p->k; l++) {
        sum += (double)p->A[p->ta ? l * p->m + i : i * p->k + l] * (double)p->B[p->tb ? j * p->k + l : l * p->n + j];
    }
    return sum;
}

typedef void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda,
                  const real *B, int64_t ldb, real beta, real *C, int64_t ldc);

static void check_gemm(gemm *call, const product *p, int64_t pad, real beta, uint64_t *seed)
{
    int64_t ld = p->n + pad, size = p->m * ld;
    real *C = new_matrix(seed, size), *old = new_matrix(seed, size);
    for (int64_t i = 0; beta == 0 && i < size; i++) C[i] = (real)NAN;
    memcpy(old, C, (size_t)size * sizeof *C);
    int64_t k = p->k ? p->k : 1; /* a leading dimension is never 0 */
    call(p->ta, p->tb, p->m, p->n, p->k, (real)0.5, p->A, p->ta ? p->m : k, p->B, p->tb ? k : p->n, beta, C, ld);
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            double before = beta == 0 ? 0 : (double)beta * (double)old[i * ld + j];
            assert_near((double)C[i * ld + j], 0.5 * entry(p, i, j) + before, 2 + sqrt((double)p->k));
        }
        assert_memory_equal(C + i * ld + p->n, old + i * ld + p->n, (size_t)pad * sizeof *C);
    }
    free(C);
    free(old);
}

/* Sides on both sides of a block, rows and columns by themselves, nothing to sum. */
static void products_match_plain_loops(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},     {3, 5, 7},    {250, 40, 130}, {121, 17, 300},
                                        {100, 1, 300}, {1, 70, 300}, {5, 6, 0}};
    static const real betas[] = {0, 1, (real)-0.25};
    uint64_t seed = 31;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        product p = {.m = shapes[s][0], .n = shapes[s][1], .k = shapes[s][2]};
        real *A = new_matrix(&seed, p.m * p.k), *B = new_matrix(&seed, p.k * p.n);
        p.A = A;
        p.B = B;
        for (int which = 0; which < 12; which++) {
            p.ta = which & 1;
            p.tb = which & 2;
            check_gemm(own_gemm, &p, which & 1 ? PAD : 0, betas[which / 4], &seed);
            check_gemm(serial_gemm, &p, which & 1 ? PAD : 0, betas[which / 4], &seed);
        }
        free(A);
        free(B);
    }
}

typedef void syrk(bool lower, bool transpose, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, real beta,
                  real *C, int64_t ldc);

static void check_syrk(syrk *call, bool lower, bool transpose, int64_t n, int64_t k, uint64_t *seed)
{
    real *A = new_matrix(seed, n * k), *C = new_matrix(seed, n * n), *old = new_matrix(seed, n * n);
    memcpy(old, C, (size_t)(n * n) * sizeof *C);
    call(lower, transpose, n, k, -1, A, transpose ? n : k, 1, C, n);
    product p = {transpose, !transpose, n, n, k, A, A};
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = lower ? 0 : i; j < (lower ? i + 1 : n); j++) {
            assert_near((double)C[i * n + j], (double)old[i * n + j] - entry(&p, i, j), 2 + (double)k);
        }
    }
    free(A);
    free(C);
    free(old);
}

typedef void upper(int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B, int64_t ldb,
                   real beta, real *C, int64_t ldc);

static void check_upper(upper *call, int64_t m, int64_t n, int64_t k, uint64_t *seed)
{
    real *A = new_matrix(seed, m * k), *B = new_matrix(seed, k * n);
    real *C = new_matrix(seed, m * n), *old = new_matrix(seed, m * n);
    memcpy(old, C, (size_t)(m * n) * sizeof *C);
    call(m, n, k, 2, A, k, B, n, 1, C, n);
    product p = {false, false, m, n, k, A, B};
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = i; j < n; j++) {
            assert_near((double)C[i * n + j], (double)old[i * n + j] + 2 * entry(&p, i, j), 2 + (double)k);
        }
    }
    free(A);
    free(B);
    free(C);
    free(old);
}

static void upper_parts_match_plain_loops(void **state)
{
    (void)state;
    uint64_t seed = 34;
    for (int64_t n = 5; n <= 305; n += 100) {
        check_upper(own_upper, n - 4, n, 37, &seed);
        check_upper(own_upper, n, n, 150, &seed);
        check_upper(serial_upper, n - 4, n, 37, &seed);
        check_upper(serial_upper, n, n, 150, &seed);
    }
}

/* Square matrices whose sides are around multiples of a tile. */
static void transposes_match_plain_loops(void **state)
{
    (void)state;
    static const int64_t sides[] = {1, 5, 31, 32, 33, 64, 100};
    uint64_t seed = 35;
    for (size_t s = 0; s < sizeof sides / sizeof sides[0]; s++) {
        int64_t n = sides[s];
        real *M = new_matrix(&seed, n * n), *mirrored = new_matrix(&seed, n * n), *mean = new_matrix(&seed, n * n);
        real *skew = new_matrix(&seed, n * n);
        memcpy(mean, M, (size_t)(n * n) * sizeof *M);
        memcpy(mirrored, M, (size_t)(n * n) * sizeof *M);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < i; j++) mirrored[i * n + j] = (real)NAN;
        }
        la_mirror(n, mirrored);
        la_symmetrise(n, mean);
        la_skew(n, M, skew);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                real own = M[i * n + j], other = M[j * n + i];
                assert_true(mirrored[i * n + j] == (i < j ? own : other));
                assert_true(mean[i * n + j] == (own + other) / 2);
                assert_true(skew[i * n + j] == other - own);
            }
        }
        free(M);
        free(mirrored);
        free(mean);
        free(skew);
    }
}

static void symmetric_products_match_plain_loops(void **state)
{
    (void)state;
    uint64_t seed = 32;
    for (int which = 0; which < 4; which++) {
        for (int64_t n = 5; n <= 205; n += 100) {
            check_syrk(own_syrk, which & 1, which & 2, n, 37, &seed);
            check_syrk(serial_syrk, which & 1, which & 2, n, 37, &seed);
        }
    }
}

/* Entry i of fibre j: rows of X are fibres where T stands on the right. */
static real *at(const serial_tri_op *op, int64_t n, int64_t count, real *X, int64_t i, int64_t j)
{
    return op->right ? X + j * n + i : X + i * count + j;
}

/* The sum over k of op(T)_ik x_k, or x_k op(T)_ki. */
static double mul_entry(const serial_tri_op *op, int64_t n, int64_t count, real *X, int64_t i, int64_t j)
{
    bool turned = op->transpose != op->right, lower = op->lower != turned;
    double sum = 0;
    for (int64_t k = lower ? 0 : i; k < (lower ? i + 1 : n); k++) {
        sum += (double)op->T[turned ? k * n + i : i * n + k] * (double)*at(op, n, count, X, k, j);
    }
    return sum;
}

typedef void tri(const serial_tri_op *op, int64_t rows, int64_t columns, real *X, int64_t ldx);

static void check_tri(tri *call, const serial_tri_op *op, int64_t n, int64_t count, uint64_t *seed)
{
    real *X = new_matrix(seed, n * count), *Y = new_matrix(seed, n * count);
    memcpy(Y, X, (size_t)(n * count) * sizeof *X);
    call(op, op->right ? count : n, op->right ? n : count, Y, op->right ? n : count);
    real *from = op->solve ? Y : X, *to = op->solve ? X : Y; /* op(T) from = to */
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < count; j++) {
            assert_near(mul_entry(op, n, count, from, i, j), (double)*at(op, n, count, to, i, j), 20);
        }
    }
    free(X);
    free(Y);
}

/* 1030 is above the side from which triangles are halved. */
static void triangles_match_plain_loops(void **state)
{
    (void)state;
    uint64_t seed = 33;
    for (int64_t n = 30; n <= 1030; n += 1000) {
        real *T = new_matrix(&seed, n * n);
        for (int64_t i = 0; i < n * n; i++) T[i] = T[i] / (real)(2 * n) + (i % (n + 1) ? 0 : 1);
        for (int which = 0; which < 16; which++) {
            serial_tri_op op = {which & 1, which & 2, which & 4, which & 8, T, n};
            check_tri(own_tri, &op, n, 5, &seed);
            check_tri(serial_tri, &op, n, 5, &seed);
        }
        free(T);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_match_plain_loops),    cmocka_unit_test(symmetric_products_match_plain_loops),
        cmocka_unit_test(upper_parts_match_plain_loops), cmocka_unit_test(transposes_match_plain_loops),
        cmocka_unit_test(triangles_match_plain_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
