/* The same inputs give the same bits on any number of threads. Sizes are such that the work is shared out. */
#include "support.h"

#include "core/dtype.h"
#include "la/la.h"
#include "la/matrix/blas.h"
#include "la/network/network.h"

typedef struct subject {
    const char *spec;
    int ndim;
    int64_t shape[3];
} subject;

static const subject subjects[] = {
    {"diag", 1, {200003}},
    {"scale", 1, {200003}},
    {"norm", 1, {100003}},
    {"t(bnorm)", 1, {100003}},
    {"xmat", 1, {100001}},
    {"tri", 1, {701}},
    {"tril", 1, {701}},
    {"kron(diag,norm)", 2, {300, 401}},
    {"kron(t(norm),diag)", 2, {301, 400}},
    {"kron(xmat,diag,scale)", 3, {40, 50, 60}},
    {"sum(diag:70000,norm:70000,scale)", 1, {150000}},
    {"kron(diag,tri)", 2, {300, 301}},
    {"kron(tri,tril)", 2, {257, 129}},
    {"kron(dense,dense)", 2, {120, 70}},
    {"dense", 1, {130}},
    {"block(tri:400,diag:300)", 1, {700}},
    {"kron(tri,tril)", 2, {1100, 130}},
};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

/* P x after a few updates, on this many threads. */
static real *run(const subject *s, const char *norm, int threads, int64_t *n)
{
    psgd_options *options;
    psgd_precond *precond;
    uint64_t seed = 4;
    assert_ok(psgd_set_threads(threads));
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set(options, "step", "0.1"));
    assert_ok(psgd_precond_create(NULL, s->spec, s->ndim, s->shape, REAL_DTYPE, options, &precond));
    *n = psgd_precond_size(precond);
    real *v = calloc((size_t)*n, sizeof(real)), *h = calloc((size_t)*n, sizeof(real));
    for (int k = 0; k < 3; k++) {
        for (int64_t i = 0; i < *n; i++) {
            v[i] = (real)(random_uniform(&seed) - 0.5);
            h[i] = (real)(random_uniform(&seed) - 0.5);
        }
        assert_ok(psgd_precond_update(precond, v, h));
    }
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, v, v));
    free(h);
    psgd_precond_free(precond);
    psgd_options_free(options);
    return v;
}

static void compare(const subject *s, const char *norm, int threads, int other)
{
    int64_t n, m;
    real *x = run(s, norm, threads, &n), *y = run(s, norm, other, &m);
    if (memcmp(x, y, (size_t)n * sizeof(real))) {
        print_error("%s with %s on %d and %d threads differs\n", s->spec, norm, threads, other);
        fail();
    }
    free(x);
    free(y);
}

static void updates_do_not_depend_on_the_threads(void **state)
{
    (void)state;
    static const char *const norms[] = {"max", "spectral", "second", "auto"};
    for (int i = 0; i < SUBJECTS; i++) {
        for (int k = 0; k < 4; k++) {
            if (every_case() || (i + k) % 2 == 0) compare(&subjects[i], norms[k], 1, 2 + k);
        }
    }
}

static void the_same_threads_give_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < SUBJECTS; i += every_case() ? 1 : 2) {
        compare(&subjects[i], "max", 1, 1);
        compare(&subjects[i], "spectral", 2, 2);
    }
}

static real *random_size(int64_t n, uint64_t *seed)
{
    real *x = malloc((size_t)n * sizeof(real));
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) x[i] = (real)random_normal(seed);
    return x;
}

/* Layers: few samples and many, deeper sums than our kernels take. */
static void products_of_layers_do_not_depend_on_the_threads(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{120, 90, 1400}, {150, 41, 5000}, {60, 1500, 130}, {1201, 64, 100},
                                       {800, 401, 20},  {84, 121, 256},  {33, 1025, 31}};
    uint64_t seed = 8;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int64_t rows = sizes[s][0], columns = sizes[s][1], n = sizes[s][2];
        int64_t count[] = {rows * n, columns * n, rows * columns};
        real *W = random_size(rows * columns, &seed), *X = random_size(columns * n, &seed);
        real *D = random_size(rows * n, &seed), *got[2][3];
        for (int k = 0; k < 2; k++) {
            assert_ok(psgd_set_threads(1 + 2 * k));
            for (int i = 0; i < 3; i++) assert_non_null(got[k][i] = malloc((size_t)count[i] * sizeof(real)));
            la_product(rows, columns, n, W, columns, false, X, false, got[k][0]);
            la_product(rows, columns, n, W, columns, true, D, false, got[k][1]);
            la_outer(rows, columns, n, D, X, false, got[k][2], columns);
        }
        for (int i = 0; i < 3; i++) {
            assert_memory_equal(got[0][i], got[1][i], (size_t)count[i] * sizeof(real));
            free(got[0][i]);
            free(got[1][i]);
        }
        free(W);
        free(X);
        free(D);
    }
}

/* What BLAS computes of sides beyond those of the small kernels, on so many threads. */
static real *large_products(int threads, int64_t *size)
{
    enum { N = 1100, FIBRES = 150, M = 300 };
    uint64_t seed = 9;
    real *T = random_size(N * N, &seed), *X = random_size(N * FIBRES, &seed), *R = random_size(N * N, &seed);
    real *all = malloc((2 * N * N + 4 * N * FIBRES + M * M) * sizeof(real)), *to = all;
    for (int64_t i = 0; i < N * N; i++) T[i] /= N;
    for (int64_t i = 0; i < N; i++) T[i * (N + 1)] += 1;
    assert_ok(psgd_set_threads(threads));
    for (int k = 0; k < 4; k++, to += N * FIBRES) {
        memcpy(to, X, N * FIBRES * sizeof(real));
        view V = k & 1 ? view_rows(to, N, FIBRES) : view_columns(to, N, FIBRES);
        if (k & 2) la_tri_solve(T, true, false, V);
        if (!(k & 2)) la_tri_mul(T, false, true, V);
    }
    memset(to, 0, N * N * sizeof(real));
    la_sym_outer(view_rows(X, N, FIBRES), view_columns(X, N, FIBRES), -1, true, false, to);
    to += N * N;
    memcpy(to, T, N * N * sizeof(real));
    la_tri_retract(N, false, (real)0.1, R, to);
    to += N * N;
    la_gemm(false, true, M, M, 2 * N, 1, T, 2 * N, R, 2 * N, 0, to, M);
    *size = to + M * M - all;
    free(T);
    free(X);
    free(R);
    return all;
}

static void large_products_do_not_depend_on_the_threads(void **state)
{
    (void)state;
    int64_t size;
    real *want = large_products(1, &size);
    for (int threads = every_case() ? 2 : 3; threads <= (every_case() ? 4 : 3); threads++) {
        real *got = large_products(threads, &size);
        assert_memory_equal(got, want, (size_t)size * sizeof(real));
        free(got);
    }
    free(want);
}

/* The program's own settings of BLAS and OpenMP: weak, as there may be no BLAS and no OpenMP. */
#pragma weak openblas_get_num_threads
#pragma weak openblas_set_num_threads
#pragma weak omp_get_max_threads
int openblas_get_num_threads(void);
void openblas_set_num_threads(int threads);
int omp_get_max_threads(void);

static void settings_of_the_program_stay(void **state)
{
    (void)state;
    int64_t size;
    if (!openblas_get_num_threads) skip();
    openblas_set_num_threads(3);
    int before = openblas_get_num_threads(), openmp = omp_get_max_threads ? omp_get_max_threads() : 0;
    free(large_products(2, &size));
    assert_int_equal(openblas_get_num_threads(), before);
    if (omp_get_max_threads) assert_int_equal(omp_get_max_threads(), openmp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_do_not_depend_on_the_threads),
        cmocka_unit_test(the_same_threads_give_the_same_bits),
        cmocka_unit_test(products_of_layers_do_not_depend_on_the_threads),
        cmocka_unit_test(large_products_do_not_depend_on_the_threads),
        cmocka_unit_test(settings_of_the_program_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
