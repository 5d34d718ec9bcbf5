/* psgd_least_squares on published problems and on a problem of NIST with certified digits; products and differences. */
#include "support.h"
#include "problem/problem.h"

enum { MAX = 64 };

/* With Jacobian products, or with differences of residuals. */
static psgd_result solve(const char *name, bool products, double *x)
{
    problem *p;
    psgd_result r;
    assert_ok(psgd__problem_create(NULL, name, 0, &p));
    psgd__problem_start(p, x);
    psgd_residuals residuals = {.m = psgd__problem_residual_count(p), .residuals = psgd__problem_residuals, .data = p};
    if (products) {
        residuals.product = psgd__problem_jacobian;
        residuals.transposed = psgd__problem_jacobian_transposed;
    }
    assert_ok(psgd_least_squares(NULL, psgd__problem_size(p), x, &residuals, NULL, NULL, NULL, &r));
    psgd__problem_free(p);
    return r;
}

/* Half the published sums of squares. Of the methods for any function, few reach them from these starts. */
static void published_problems_are_solved(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double sum;
    } cases[] = {{"bard", 8.2148773065790e-3},
                 {"meyer", 87.945855170},
                 {"osborne-1", 5.4648946974879e-5},
                 {"osborne-2", 4.0137736293548e-2},
                 {"kowalik-osborne", 3.0750560384924e-4},
                 {"rosenbrock", 0},
                 {"powell-badly-scaled", 0},
                 {"brown-dennis", 85822.201626},
                 {"broyden-tridiagonal", 0}};
    for (size_t k = 0; k < 2 * sizeof cases / sizeof cases[0]; k++) {
        double x[MAX];
        psgd_result r = solve(cases[k / 2].name, k % 2 == 0, x);
        double want = cases[k / 2].sum / 2;
        if (!(fabs(r.value - want) <= 1e-6 * (want > 0 ? want : 1))) {
            fail_msg("%s, %s: %.12g instead of %.12g, %s after %lld evaluations", cases[k / 2].name,
                     k % 2 ? "differences" : "products", r.value, want, psgd_outcome_text(r.outcome),
                     (long long)r.evaluations);
        }
        assert_true(r.evaluations < 4000);
    }
}

/* Misra1a of NIST's nonlinear regression problems: y = b1 (1 - exp(-b2 t)). */
static int misra(void *data, int64_t n, const double *b, double *r)
{
    static const double y[] = {10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02,
                               44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78};
    static const double t[] = {77.6,  114.9, 141.1, 190.8, 239.9, 289.0, 332.8,
                               378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0};
    (void)data, (void)n;
    for (int i = 0; i < 14; i++) r[i] = b[0] * (1 - exp(-b[1] * t[i])) - y[i];
    return 0;
}

static void certified_digits_of_nist_are_reached(void **state)
{
    (void)state;
    const double starts[][2] = {{500, 0.0001}, {250, 0.0005}};
    for (int k = 0; k < 2; k++) {
        double b[] = {starts[k][0], starts[k][1]};
        psgd_result r;
        psgd_residuals residuals = {.m = 14, .residuals = misra};
        assert_ok(psgd_least_squares(NULL, 2, b, &residuals, NULL, NULL, NULL, &r));
        assert_float_equal(2 * r.value, 1.2455138894e-01, 1e-9);
        assert_float_equal(b[0], 238.94212918, 1e-3);
        assert_float_equal(b[1], 5.5015643181e-04, 1e-8);
    }
}

static void bounds_apply(void **state)
{
    (void)state;
    double b[] = {300, 0.0003}, upper[] = {230, 1}, lower[] = {0, 0};
    psgd_result r;
    psgd_residuals residuals = {.m = 14, .residuals = misra, .lower = lower, .upper = upper};
    assert_ok(psgd_least_squares(NULL, 2, b, &residuals, NULL, NULL, NULL, &r));
    assert_float_equal(b[0], 230, 0); /* the bound is active: below the free minimum at 238.9 */
    assert_true(2 * r.value > 0.1246 && 2 * r.value < 2);
}

static int fails(void *data, int64_t n, const double *x, double *r)
{
    (void)data, (void)n, (void)x, (void)r;
    return 3;
}

static int no_product(void *data, int64_t n, const double *x, const double *v, double *y)
{
    (void)data, (void)n, (void)x, (void)v, (void)y;
    return 0;
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    double x[] = {1};
    psgd_result r;
    psgd_residuals residuals = {.m = 1, .residuals = fails};
    assert_fails(psgd_least_squares(NULL, 1, x, &residuals, NULL, NULL, NULL, &r), PSGD_ERR_CALLBACK, "failure 3");
    assert_int_equal(r.outcome, PSGD_FAILED);
    residuals.product = no_product;
    assert_fails(psgd_least_squares(NULL, 1, x, &residuals, NULL, NULL, NULL, &r), PSGD_ERR_ARGUMENT,
                 "both or neither");
    residuals = (psgd_residuals){.residuals = fails};
    assert_fails(psgd_least_squares(NULL, 1, x, &residuals, NULL, NULL, NULL, &r), PSGD_ERR_ARGUMENT, "one residual");
    assert_true(isnan(r.value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_problems_are_solved),
        cmocka_unit_test(certified_digits_of_nist_are_reached),
        cmocka_unit_test(bounds_apply),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
