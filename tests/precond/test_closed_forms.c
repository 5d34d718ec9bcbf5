/* Where the fit ends. With every pair of a small population in each update R is the expectation itself, so the fixed
 * point is reached to many digits; one random pair an update reaches it with a decaying step, to the noise. */
#include "reference.h"
#include "support.h"

enum { MAX = 16 };

typedef struct population {
    int64_t n, count;
    double v[MAX * MAX], h[MAX * MAX]; /* one pair after the other */
} population;

/* v = sqrt(n) e_k, so that E[vv'] = I exactly, and h = Hv. */
static void from_hessian(population *p, int64_t n, const double *H)
{
    *p = (population){.n = n, .count = n};
    for (int64_t k = 0; k < n; k++) {
        p->v[k * n + k] = sqrt((double)n);
        for (int64_t i = 0; i < n; i++) p->h[k * n + i] = H[i * n + k] * sqrt((double)n);
    }
}

static void random_population(population *p, int64_t n, int64_t count, uint64_t seed)
{
    *p = (population){.n = n, .count = count};
    for (int64_t i = 0; i < n * count; i++) {
        p->v[i] = random_normal(&seed);
        p->h[i] = (0.3 + (double)(i % n)) * random_normal(&seed) + 0.5 * p->v[i];
    }
}

static psgd_precond *make(const char *spec, int ndim, const int64_t *shape, const char *norm, const char *const *more)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set(options, "pairs", "16"));
    for (; more && *more; more += 2) assert_ok(psgd_options_set(options, more[0], more[1]));
    assert_ok(psgd_precond_create(NULL, spec, ndim, shape, PSGD_F64, options, &precond));
    psgd_options_free(options);
    return precond;
}

/* The whole population in each update; "none" with a step that the spectrum of R allows, or "second" decaying. */
static void fit(psgd_precond *precond, const population *p, bool second, int updates)
{
    for (int k = 0; k < updates; k++) {
        assert_ok(psgd_precond_set_step(precond, second ? 0.5 / (1 + 0.002 * k) : 0.004));
        assert_ok(psgd_precond_update_pairs(precond, p->count, p->v, p->h));
    }
    assert_int_equal(psgd_precond_skipped(precond), 0);
}

static double mean_product(const population *p, const double *x, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < p->count; k++) sum += x[k * p->n + i] * x[k * p->n + j];
    return sum / (double)p->count;
}

/* max |P E[hh'] P - E[vv']| */
static double misfit(const psgd_precond *precond, const population *p)
{
    int64_t n = p->n;
    double C[MAX * MAX], worst = 0;
    for (int64_t i = 0; i < n * n; i++) C[i] = mean_product(p, p->h, i / n, i % n);
    for (int64_t i = 0; i < n; i++) assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, C + i * n, C + i * n));
    for (int64_t j = 0; j < n; j++) {
        double column[MAX] = {0};
        for (int64_t i = 0; i < n; i++) column[i] = C[i * n + j];
        assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, column, column));
        for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(column[i] - mean_product(p, p->v, i, j)));
    }
    return worst;
}

static void assert_diagonal(const psgd_precond *precond, int64_t n, const double *expected, double tolerance)
{
    double x[MAX] = {0};
    for (int64_t i = 0; i < n; i++) x[i] = 1;
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, x, x));
    for (int64_t i = 0; i < n; i++) {
        if (fabs(x[i] / expected[i] - 1) > tolerance) print_error("P_%d is %g, not %g\n", (int)i, x[i], expected[i]);
        assert_true(fabs(x[i] / expected[i] - 1) <= tolerance);
    }
}

/* Section 6, equilibrated SGD: P = sqrt(E[v^2] / E[h^2]). */
static void diag_newton_is_the_equilibration_preconditioner(void **state)
{
    (void)state;
    population p;
    int64_t n = 5;
    double expected[5];
    random_population(&p, n, 9, 7);
    for (int64_t i = 0; i < n; i++) expected[i] = sqrt(mean_product(&p, p.v, i, i) / mean_product(&p, p.h, i, i));
    for (int second = 0; second < 2; second++) {
        psgd_precond *precond = make("diag", 1, &n, second ? "second" : "none", NULL);
        fit(precond, &p, second, 6000);
        assert_diagonal(precond, n, expected, second ? 1e-3 : 1e-8);
        psgd_precond_free(precond);
    }
}

/* Section 6, RMSProp: P = 1 / sqrt(E[g^2] + lambda^2). */
static void diag_fisher_is_rmsprop(void **state)
{
    (void)state;
    population p;
    int64_t n = 5;
    double expected[5];
    random_population(&p, n, 9, 8);
    for (int64_t i = 0; i < n; i++) expected[i] = 1 / sqrt(mean_product(&p, p.h, i, i) + 0.09);
    const char *more[] = {"criterion", "fisher", "damping", "0.3", "integrate", "yes", NULL};
    for (int second = 0; second < 2; second++) {
        psgd_precond *precond = make("diag", 1, &n, second ? "second" : "none", more);
        fit(precond, &p, second, 6000);
        assert_diagonal(precond, n, expected, second ? 1e-3 : 1e-8);
        psgd_precond_free(precond);
    }
}

/* The same from one random pair at a time. E[h^2] = c_i^2 for h = c v; noise makes it c_i^2 + 1. */
static void one_pair_at_a_time_comes_to_the_same(void **state)
{
    (void)state;
    enum { N = 4, UPDATES = 30000 };
    int64_t n = N;
    uint64_t seed = 12;
    double expected[N], v[N], h[N];
    psgd_precond *precond = make("diag", 1, &n, "second", NULL);
    for (int i = 0; i < N; i++) expected[i] = 1 / sqrt((1.0 + i) * (1.0 + i) + 1);
    for (int k = 0; k < UPDATES; k++) {
        for (int i = 0; i < N; i++) {
            v[i] = random_normal(&seed);
            h[i] = (1.0 + i) * v[i] + random_normal(&seed);
        }
        assert_ok(psgd_precond_set_step(precond, 0.5 / (1 + 0.01 * k)));
        assert_ok(psgd_precond_update(precond, v, h));
    }
    assert_diagonal(precond, n, expected, 0.05);
    psgd_precond_free(precond);
}

/* P E[hh'] P = E[vv'] on groups that can represent it. */
static void triangles_and_dense_solve_the_matching_equation(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "tri", "tril", "dense", "block(tri:1,dense:2)", "t(block(dense:2,tri:1))", "kron(dense)"};
    population p;
    int64_t n = 3;
    for (int i = 0; i < 6; i++) {
        random_population(&p, n, 8, 21);
        psgd_precond *precond = make(specs[i], 1, &n, "none", NULL);
        fit(precond, &p, false, 20000);
        if (misfit(precond, &p) > 1e-9) print_error("%s: off by %g\n", specs[i], misfit(precond, &p));
        assert_true(misfit(precond, &p) <= 1e-9);
        psgd_precond_free(precond);

        precond = make(specs[i], 1, &n, "second", NULL);
        fit(precond, &p, true, 20000);
        if (misfit(precond, &p) > 1e-2) print_error("%s, second: off by %g\n", specs[i], misfit(precond, &p));
        assert_true(misfit(precond, &p) <= 1e-2);
        psgd_precond_free(precond);
    }
}

/* With h = Hv, H indefinite, P is (H^2)^-1/2: |H|^-1. */
static void newton_inverts_the_absolute_hessian(void **state)
{
    (void)state;
    population p;
    int64_t n = 2;
    /* H = [1 2; 2 1] has eigenvalues 3 and -1: |H| = [2 1; 1 2], its inverse [2 -1; -1 2] / 3. */
    double P[] = {1, 0}, H[] = {1, 2, 2, 1};
    from_hessian(&p, n, H);
    psgd_precond *precond = make("tri", 1, &n, "none", NULL);
    fit(precond, &p, false, 4000);
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, P, P));
    assert_float_equal(P[0], 2.0 / 3, 1e-9);
    assert_float_equal(P[1], -1.0 / 3, 1e-9);
    psgd_precond_free(precond);
}

static void kron_solves_kronecker_problems(void **state)
{
    (void)state;
    static const char *const specs[] = {"kron(tri,tri)", "kron(dense,tril)", "t(kron(tri,dense))",
                                        "sum(kron(tri:2,tri:3):6)"};
    const double first[] = {1.2, 0.4, 0.1, 0.8}, other[] = {1, 0.3, 0, -0.2, 0.7, 0.1, 0.2, 0, 1.1};
    population p;
    int64_t shape[] = {2, 3};
    double H[36];
    ref_kronecker(2, first, 3, other, H);
    from_hessian(&p, 6, H);
    for (int i = 0; i < 4; i++) {
        psgd_precond *precond = make(specs[i], 2, shape, "none", NULL);
        fit(precond, &p, false, 5000);
        if (misfit(precond, &p) > 1e-9) print_error("%s: off by %g\n", specs[i], misfit(precond, &p));
        assert_true(misfit(precond, &p) <= 1e-9);
        psgd_precond_free(precond);
    }
}

/* The group of feature normalisation on inputs (x, 1): E[R] = 0, written out for Q = [d c; 0 1]. */
static void bnorm_reaches_its_fixed_point(void **state)
{
    (void)state;
    population p = {.n = 2, .count = 4};
    int64_t n = 2;
    const double x[] = {1, 3, 6, 2}; /* mean 3, variance 3.5 */
    const char *more[] = {"criterion", "fisher", "integrate", "yes", NULL};
    for (int k = 0; k < 4; k++) {
        p.h[2 * k] = x[k];
        p.h[2 * k + 1] = 1;
    }
    psgd_precond *precond = make("bnorm", 1, &n, "none", more);
    fit(precond, &p, false, 20000);
    double Q[4];
    assert_ok(psgd_precond_factor(precond, 0, Q));
    double mean = Q[0] * 3 + Q[1];
    /* E[(dx + c)^2] = 1 / d^2 and E[dx + c] = -c / d^2, the entries of Q^-T Q^-1. */
    assert_float_equal(mean, -Q[1] / (Q[0] * Q[0]), 1e-9);
    assert_float_equal(Q[0] * Q[0] * 12.5 + 6 * Q[0] * Q[1] + Q[1] * Q[1], 1 / (Q[0] * Q[0]), 1e-9);
    psgd_precond_free(precond);
}

/* The entry that a group fixes is not in R, but decides how far its column may move: with the last feature 10 and not 1
 * a step that does not count it overshoots, and the column turns back and forth for ever. */
static void second_settles_where_an_entry_is_fixed(void **state)
{
    (void)state;
    static const char *const specs[] = {"bnorm",
                                        "t(bnorm)",
                                        "block(tri,identity:1)",
                                        "block(diag:1,identity:2)",
                                        "t(block(tri,identity:1))",
                                        "block(tri:1,sum(identity:1,diag:1))"};
    for (int s = 0; s < 6; s++) {
        for (int integrate = 0; integrate < 2; integrate++) {
            const char *more[] = {"criterion", "fisher", "integrate", integrate ? "yes" : "no", "step", "0.3", NULL};
            population p;
            int64_t n = 3;
            double Q[9], before[9], moved = 0;
            random_population(&p, n, 8, 21);
            for (int k = 0; k < 8; k++) p.h[3 * k + 2] = 10;
            psgd_precond *precond = make(specs[s], 1, &n, "second", more);
            for (int k = 0; k < 6000; k++) {
                assert_ok(psgd_precond_factor(precond, 0, before));
                assert_ok(psgd_precond_update_pairs(precond, 8, integrate ? NULL : p.v, p.h));
                assert_ok(psgd_precond_factor(precond, 0, Q));
                for (int i = 0; k >= 5900 && i < 9; i++) moved = fmax(moved, fabs(Q[i] - before[i]));
            }
            if (moved > 1e-4) print_error("%s still moves by %g\n", specs[s], moved);
            assert_true(moved <= 1e-4); /* back and forth: by 0.2 */
            psgd_precond_free(precond);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diag_newton_is_the_equilibration_preconditioner),
        cmocka_unit_test(diag_fisher_is_rmsprop),
        cmocka_unit_test(one_pair_at_a_time_comes_to_the_same),
        cmocka_unit_test(triangles_and_dense_solve_the_matching_equation),
        cmocka_unit_test(newton_inverts_the_absolute_hessian),
        cmocka_unit_test(kron_solves_kronecker_problems),
        cmocka_unit_test(bnorm_reaches_its_fixed_point),
        cmocka_unit_test(second_settles_where_an_entry_is_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
