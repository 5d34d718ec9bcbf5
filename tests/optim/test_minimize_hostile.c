/* psgd_minimize and its relatives with starts, gradients and options that make no sense: a sentence, and x stays. */
#include "support.h"

enum { N = 3 };

/* A bowl whose gradient has one entry of our choice; x[2] does not matter to it. */
typedef struct bowl {
    int entry;
    double instead;
    int calls;
} bowl;

static int evaluate(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    bowl *self = data;
    (void)n;
    self->calls++;
    *value = x[0] * x[0] + 2 * x[1] * x[1];
    if (!gradient) return 0;
    gradient[0] = 2 * x[0];
    gradient[1] = 4 * x[1];
    gradient[2] = 0;
    if (self->entry >= 0) gradient[self->entry] = self->instead;
    return 0;
}

static const double strange[] = {NAN, INFINITY, -INFINITY};

static void a_start_that_is_not_finite_is_refused(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < N; i++) {
            bowl own = {.entry = -1};
            double x[N] = {1, 2, 3};
            psgd_result r;
            x[i] = strange[k];
            psgd_function function = {.evaluate = evaluate, .data = &own};
            assert_fails(psgd_minimize(NULL, N, x, &function, NULL, NULL, NULL, &r), PSGD_ERR_NOT_FINITE,
                         "is not finite at the start");
            assert_int_equal(own.calls, 0);
            assert_int_equal(r.outcome, PSGD_FAILED);
            assert_true(isnan(r.value));
        }
    }
}

/* With bounds, x - project(x - g) is finite where g is infinite. */
static void a_gradient_that_is_not_finite_is_refused(void **state)
{
    (void)state;
    const double lower[N] = {-5, -5, -5}, upper[N] = {5, 5, 5};
    for (int k = 0; k < 3; k++) {
        for (int bounded = 0; bounded < 2; bounded++) {
            bowl own = {.entry = 1, .instead = strange[k]};
            double x[N] = {1, 2, 3};
            psgd_result r;
            psgd_function function = {
                .evaluate = evaluate, .data = &own, .lower = bounded ? lower : NULL, .upper = bounded ? upper : NULL};
            assert_fails(psgd_minimize(NULL, N, x, &function, NULL, NULL, NULL, &r), PSGD_ERR_NOT_FINITE,
                         "is not finite at the start");
            assert_int_equal(own.calls, 1);
            assert_true(x[0] == 1 && x[1] == 2 && x[2] == 3);
        }
    }
}

static void an_infinite_entry_of_a_gradient_is_wrong(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        bowl own = {.entry = 1, .instead = strange[k]};
        psgd_derivative_check found;
        psgd_function function = {.evaluate = evaluate, .data = &own};
        assert_ok(psgd_check_gradient(NULL, N, (double[]){1, 2, 3}, &function, &found, NULL));
        assert_int_equal(found.wrong, 1);
        assert_int_equal(found.entry, 1);
    }
}

static void shapes_that_say_nothing_are_refused(void **state)
{
    (void)state;
    static const char *const shapes[] = {"3x",  "x3", "3xx1", "3x0", "-3", "3 ", "1e0x3", "3x99999999999999999999",
                                         "3x1x"};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        bowl own = {.entry = -1};
        double x[N] = {1, 2, 3};
        psgd_options *options;
        psgd_function function = {.evaluate = evaluate, .data = &own};
        assert_ok(psgd_options_create(NULL, &options));
        assert_ok(psgd_options_set(options, "shape", shapes[k]));
        assert_fails(psgd_minimize(NULL, N, x, &function, options, NULL, NULL, NULL), PSGD_ERR_ARGUMENT, shapes[k]);
        assert_int_equal(own.calls, 0);
        psgd_options_free(options);
    }
}

static void bounds_without_a_number_between_them_are_refused(void **state)
{
    (void)state;
    static const double pairs[][2] = {
        {1, 0}, {NAN, 1}, {0, NAN}, {NAN, NAN}, {INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        bowl own = {.entry = -1};
        double x[N] = {1, 2, 3}, lower[N] = {0, 0, pairs[k][0]}, upper[N] = {1, 1, pairs[k][1]};
        psgd_function function = {.evaluate = evaluate, .data = &own, .lower = lower, .upper = upper};
        assert_fails(psgd_minimize(NULL, N, x, &function, NULL, NULL, NULL, NULL), PSGD_ERR_ARGUMENT,
                     "the bounds of unknown 2");
        assert_true(own.calls == 0 && x[0] == 1 && x[1] == 2 && x[2] == 3);
    }
}

/* Residuals that leave the numbers, at the start or later. */
typedef struct residuals {
    double edge; /* beyond this they are NaN */
    int calls;
} residuals;

static int evaluate_residuals(void *data, int64_t n, const double *x, double *r)
{
    residuals *self = data;
    (void)n;
    self->calls++;
    r[0] = fabs(x[0]) > self->edge ? NAN : x[0] - 3;
    r[1] = 10 * (x[1] - x[0] * x[0]);
    return 0;
}

static void residuals_that_are_not_finite_are_no_solution(void **state)
{
    (void)state;
    for (double edge = 0.5; edge < 5; edge += 0.25) {
        residuals own = {.edge = edge};
        double x[] = {-0.4, 2};
        psgd_result r;
        psgd_residuals problem = {.m = 2, .residuals = evaluate_residuals, .data = &own};
        assert_ok(psgd_least_squares(NULL, 2, x, &problem, NULL, NULL, NULL, &r));
        assert_true(isfinite(r.value) && isfinite(x[0]) && isfinite(x[1]) && fabs(x[0]) <= edge);
        if (edge > 3.1) assert_true(r.outcome == PSGD_CONVERGED && fabs(x[0] - 3) < 1e-6);
        if (edge < 2.9) assert_true(r.outcome != PSGD_CONVERGED);
        x[0] = 2 * edge;
        assert_fails(psgd_least_squares(NULL, 2, x, &problem, NULL, NULL, NULL, &r), PSGD_ERR_NOT_FINITE, "start");
        assert_true(x[0] == 2 * edge);
    }
}

/* f = 1e-6 sum (x_i - 3)^2 (1 + i x_i^2): its first searches lengthen the step many times. From some call on it says
 * something else, with a gradient that looks like that of a minimum. */
typedef struct moody {
    int64_t calls, bad;
    double instead;
} moody;

static double valley(int64_t n, const double *x, double *gradient, double factor)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = x[i] - 3, e = 1 + (double)(i + 1) * x[i] * x[i];
        sum += 1e-6 * d * d * e;
        if (gradient) gradient[i] = 1e-6 * factor * (2 * d * e + 2 * (double)(i + 1) * d * d * x[i]);
    }
    return sum;
}

static int evaluate_moody(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    moody *self = data;
    bool bad = ++self->calls >= self->bad;
    *value = valley(n, x, gradient, bad ? 1e-12 : 1);
    if (bad) *value = self->instead;
    return 0;
}

/* The last point of a search is evaluated once more where the search has run out of evaluations. */
static void values_that_are_no_longer_finite_are_no_minimum(void **state)
{
    (void)state;
    for (int k = 4; k < 80; k++) {
        int max = k / 2;
        for (int64_t bad = 2; bad <= max + 2; bad++) {
            moody own = {.bad = bad, .instead = strange[bad % 3]};
            double x[N] = {-1, 4, -0.01};
            psgd_result r;
            psgd_options *options;
            psgd_function function = {.evaluate = evaluate_moody, .data = &own};
            assert_ok(psgd_options_create(NULL, &options));
            assert_ok(psgd_options_set_number(options, "max-evaluations", max));
            assert_ok(psgd_options_set(options, "products", k % 2 ? "none" : "auto"));
            assert_ok(psgd_minimize(NULL, N, x, &function, options, NULL, NULL, &r));
            psgd_options_free(options);
            if (!isfinite(r.value) || r.value != valley(N, x, NULL, 1)) {
                fail_msg("from call %d of %d: %g, %s, where f is %g", (int)bad, max, r.value,
                         psgd_outcome_text(r.outcome), valley(N, x, NULL, 1));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_that_is_not_finite_is_refused),
        cmocka_unit_test(a_gradient_that_is_not_finite_is_refused),
        cmocka_unit_test(an_infinite_entry_of_a_gradient_is_wrong),
        cmocka_unit_test(shapes_that_say_nothing_are_refused),
        cmocka_unit_test(bounds_without_a_number_between_them_are_refused),
        cmocka_unit_test(values_that_are_no_longer_finite_are_no_minimum),
        cmocka_unit_test(residuals_that_are_not_finite_are_no_solution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
