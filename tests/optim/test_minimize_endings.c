/* How psgd_minimize ends where it cannot succeed, psgd_check_gradient, and bounds. */
#include "support.h"
#include "problem/problem.h"

enum { N = 20 };

/* Chained Rosenbrock with an error in entry `entry` of the gradient: times factor, plus shift. */
typedef struct flawed {
    problem *p;
    int64_t entry;
    double factor, shift, product; /* product: what the entry of Hv is multiplied by */
    int64_t calls, fail_at;
} flawed;

static int evaluate_flawed(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    flawed *self = data;
    if (++self->calls == self->fail_at) return 7;
    psgd__problem_evaluate(self->p, n, x, value, gradient);
    if (gradient) gradient[self->entry] = self->factor * gradient[self->entry] + self->shift;
    return 0;
}

static void a_wrong_gradient_ends_soon_and_is_named(void **state)
{
    (void)state;
    static const double flaws[][2] = {{-1, 0}, {0, 5}, {1, 3}, {1, -3}, {2, 1}};
    for (size_t k = 0; k < sizeof flaws / sizeof flaws[0]; k++) {
        flawed own = {.entry = 7, .factor = flaws[k][0], .shift = flaws[k][1]};
        double x[N];
        psgd_result r;
        psgd_derivative_check check;
        assert_ok(psgd__problem_create(NULL, "chained-rosenbrock", N, &own.p));
        psgd_function function = {.evaluate = evaluate_flawed, .data = &own};
        psgd__problem_start(own.p, x);
        assert_ok(psgd_check_gradient(NULL, N, x, &function, &check, NULL));
        assert_int_equal(check.entry, 7);
        assert_int_equal(check.wrong, 1);
        assert_int_equal(check.compared, N);
        assert_true(check.error > 1e-3);

        assert_ok(psgd_minimize(NULL, N, x, &function, NULL, NULL, NULL, &r));
        if (r.outcome != PSGD_GRADIENT_SUSPECT || r.evaluations > 3000) {
            fail_msg("flaw %zu: %s after %lld evaluations", k, psgd_outcome_text(r.outcome), (long long)r.evaluations);
        }
        assert_non_null(strstr(psgd_outcome_text(r.outcome), "psgd_check_gradient"));
        assert_true(isfinite(r.value) && r.evaluations == own.calls - 1 - 4 * N);
        psgd__problem_free(own.p);
    }
}

static int product_flawed(void *data, int64_t n, const double *x, const double *v, double *h)
{
    const flawed *self = data;
    psgd__problem_product(self->p, n, x, v, h);
    h[self->entry] *= self->product;
    return 0;
}

static void right_derivatives_pass_the_check(void **state)
{
    (void)state;
    for (int k = 0; k < psgd__problem_count(); k++) {
        flawed own = {.factor = 1, .product = 1};
        double x[64];
        uint64_t random = 3;
        psgd_derivative_check g, h;
        assert_ok(psgd__problem_create(NULL, psgd__problem_kind(k)->name, 0, &own.p));
        int64_t n = psgd__problem_size(own.p);
        psgd_function function = {.evaluate = evaluate_flawed, .product = product_flawed, .data = &own};
        psgd__problem_start(own.p, x);
        for (int64_t i = 0; i < n; i++) x[i] *= 1 + 0.01 * random_normal(&random);
        assert_ok(psgd_check_gradient(NULL, n, x, &function, &g, &h));
        if (g.wrong || h.wrong) {
            fail_msg("%s: entry %lld of the gradient, error %g; entry %lld of the product, error %g",
                     psgd__problem_kind(k)->name, (long long)g.entry, g.error, (long long)h.entry, h.error);
        }
        psgd__problem_free(own.p);
    }
    flawed own = {.factor = 1, .product = 1.5, .entry = 2};
    double x[N];
    psgd_derivative_check h;
    assert_ok(psgd__problem_create(NULL, "broyden-tridiagonal", N, &own.p));
    psgd_function function = {.evaluate = evaluate_flawed, .product = product_flawed, .data = &own};
    psgd__problem_start(own.p, x);
    assert_ok(psgd_check_gradient(NULL, N, x, &function, NULL, &h));
    assert_int_equal(h.entry, 2);
    psgd__problem_free(own.p);
    assert_fails(psgd_check_gradient(NULL, 0, x, &function, NULL, &h), PSGD_ERR_ARGUMENT, "one unknown");
}

static void the_result_is_filled_on_every_path(void **state)
{
    (void)state;
    flawed own = {.factor = 1, .fail_at = 9};
    double x[N];
    psgd_result r;
    psgd_options *options;
    assert_ok(psgd__problem_create(NULL, "chained-rosenbrock", N, &own.p));
    psgd_function function = {.evaluate = evaluate_flawed, .data = &own};
    psgd__problem_start(own.p, x);
    memset(&r, 0x55, sizeof r);
    assert_fails(psgd_minimize(NULL, N, x, &function, NULL, NULL, NULL, &r), PSGD_ERR_CALLBACK, "failure 7");
    assert_int_equal(r.outcome, PSGD_FAILED);
    assert_int_equal(r.evaluations, 9);
    double value, again;
    psgd__problem_evaluate(own.p, N, x, &value, NULL); /* x is the point that value belongs to */
    again = r.value;
    assert_float_equal(value, again, 0);

    memset(&r, 0x55, sizeof r);
    assert_fails(psgd_minimize(NULL, N, x, NULL, NULL, NULL, NULL, &r), PSGD_ERR_ARGUMENT, "a function");
    assert_true(r.outcome == PSGD_FAILED && isnan(r.value) && r.evaluations == 0);

    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "shape", "3x7"));
    memset(&r, 0x55, sizeof r);
    assert_fails(psgd_minimize(NULL, N, x, &function, options, NULL, NULL, &r), PSGD_ERR_ARGUMENT, "21 elements");
    assert_int_equal(r.outcome, PSGD_FAILED);
    assert_ok(psgd_options_set(options, "shape", "4 by 5"));
    assert_fails(psgd_minimize(NULL, N, x, &function, options, NULL, NULL, &r), PSGD_ERR_ARGUMENT, "as in 300x300");
    psgd_options_free(options);
    psgd__problem_free(own.p);
}

/* f = |x1| + 2|x2| has a kink at its minimum; noise keeps the last digits of f from settling. */
static int kink(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    int64_t *calls = data;
    ++*calls;
    *value = 1e3;
    for (int64_t i = 0; i < n; i++) {
        *value += (double)(i + 1) * fabs(x[i]) * (1 + 1e-13 * (double)(*calls % 7));
        if (gradient) gradient[i] = x[i] < 0 ? -(double)(i + 1) : (double)(i + 1);
    }
    return 0;
}

static void a_run_that_cannot_go_lower_says_so(void **state)
{
    (void)state;
    int64_t calls = 0;
    double x[] = {3.3, -1.7, 0.9, -4.1, 2.2, 0.4};
    psgd_result r;
    psgd_function function = {.evaluate = kink, .data = &calls};
    assert_ok(psgd_minimize(NULL, 6, x, &function, NULL, NULL, NULL, &r));
    assert_true(r.outcome == PSGD_STALLED || r.outcome == PSGD_GRADIENT_SUSPECT);
    assert_true(r.evaluations == calls && calls < 3000);
}

/* f = -sum (i + 1) x_i, or with data the distance of x from 1e10, squared. */
static int far_away(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    *value = 0;
    for (int64_t i = 0; i < n; i++) {
        double r = x[i] - 1e10;
        *value += data ? r * r : -(double)(i + 1) * x[i];
        if (gradient) gradient[i] = data ? 2 * r : -(double)(i + 1);
    }
    return 0;
}

/* There the gradient is small relative to f at the start, or after a few steps. */
static void a_large_value_is_not_convergence(void **state)
{
    (void)state;
    int distance = 1;
    double x[4] = {0}, upper[] = {INFINITY, 1, 1, 1};
    psgd_result r;
    psgd_function function = {.evaluate = far_away};
    for (int k = 0; k < 2; k++) {
        assert_ok(psgd_minimize(NULL, 4, x, &function, NULL, NULL, NULL, &r));
        assert_int_equal(r.outcome, PSGD_UNBOUNDED);
        assert_true(r.value < -1e20 && r.evaluations < 300);
        memset(x, 0, sizeof x);
        function.upper = upper;
    }
    function = (psgd_function){.evaluate = far_away, .data = &distance};
    assert_ok(psgd_minimize(NULL, 4, x, &function, NULL, NULL, NULL, &r));
    assert_int_equal(r.outcome, PSGD_CONVERGED);
    for (int i = 0; i < 4; i++) assert_float_equal(x[i], 1e10, 1);
}

/* f = sum c_i (x_i - a_i)^2 / 2 + coupling (sum x)^2 / 2 */
typedef struct quadratic {
    double coupling;
    double a[N], c[N];
    const double *lower, *upper;
    bool outside; /* it was called outside the bounds */
} quadratic;

static int evaluate_quadratic(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    quadratic *q = data;
    double sum = 0;
    *value = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        q->outside = q->outside || x[i] < q->lower[i] || x[i] > q->upper[i];
        *value += q->c[i] * (x[i] - q->a[i]) * (x[i] - q->a[i]) / 2;
    }
    *value += q->coupling * sum * sum / 2;
    for (int64_t i = 0; gradient && i < n; i++) gradient[i] = q->c[i] * (x[i] - q->a[i]) + q->coupling * sum;
    return 0;
}

static int product_quadratic(void *data, int64_t n, const double *x, const double *v, double *h)
{
    const quadratic *q = data;
    double sum = 0;
    (void)x;
    for (int64_t i = 0; i < n; i++) sum += v[i];
    for (int64_t i = 0; i < n; i++) h[i] = q->c[i] * v[i] + q->coupling * sum;
    return 0;
}

/* The minimum by projected coordinate descent, which converges to it on a convex quadratic. */
static void reference_minimum(const quadratic *q, double *x)
{
    for (int i = 0; i < N; i++) x[i] = fmin(fmax(0, q->lower[i]), q->upper[i]);
    for (int sweep = 0; sweep < 20000; sweep++) {
        for (int i = 0; i < N; i++) {
            double others = 0;
            for (int j = 0; j < N; j++) others += j == i ? 0 : x[j];
            double best = (q->c[i] * q->a[i] - q->coupling * others) / (q->c[i] + q->coupling);
            x[i] = fmin(fmax(best, q->lower[i]), q->upper[i]);
        }
    }
}

static void bounds_hold_and_the_minimum_is_found(void **state)
{
    (void)state;
    uint64_t random = 9;
    for (int k = 0; k < 24; k++) {
        double lower[N], upper[N], x[N], want[N];
        quadratic q = {.coupling = k % 3, .lower = lower, .upper = upper};
        psgd_result r;
        for (int i = 0; i < N; i++) {
            q.a[i] = 3 * random_normal(&random);
            q.c[i] = pow(10, k % 4 * random_uniform(&random));
            lower[i] = i % 5 == 3 ? -INFINITY : -random_uniform(&random);
            upper[i] = i % 7 == 0 ? INFINITY : i % 6 == 4 ? lower[i] : 1 + random_uniform(&random);
            x[i] = 5 * random_normal(&random);
        }
        psgd_function function = {.evaluate = evaluate_quadratic,
                                  .product = k % 2 ? product_quadratic : NULL,
                                  .data = &q,
                                  .lower = lower,
                                  .upper = upper};
        assert_ok(psgd_minimize(NULL, N, x, &function, NULL, NULL, NULL, &r));
        if (r.outcome != PSGD_CONVERGED) fail_msg("case %d: %s", k, psgd_outcome_text(r.outcome));
        assert_true(r.evaluations + r.products < 600);
        reference_minimum(&q, want);
        for (int i = 0; i < N; i++) {
            assert_true(x[i] >= lower[i] && x[i] <= upper[i]);
            assert_float_equal(x[i], want[i], 1e-5);
        }
        if (k % 2) assert_false(q.outside); /* differences may look past a bound by 1e-8 */
    }
}

/* Rosenbrock with x <= 1/2 has its minimum at (1/2, 1/4); one bound array may be missing. */
static void bounds_of_a_curved_valley(void **state)
{
    (void)state;
    problem *p;
    double x[] = {-1.2, 1}, upper[] = {0.5, INFINITY}, lower[] = {2, 1};
    psgd_result r;
    assert_ok(psgd__problem_create(NULL, "rosenbrock", 0, &p));
    psgd_function function = {
        .evaluate = psgd__problem_evaluate, .product = psgd__problem_product, .data = p, .upper = upper};
    assert_ok(psgd_minimize(NULL, 2, x, &function, NULL, NULL, NULL, &r));
    assert_int_equal(r.outcome, PSGD_CONVERGED);
    assert_float_equal(x[0], 0.5, 0);
    assert_float_equal(x[1], 0.25, 1e-7);
    function.lower = lower;
    assert_fails(psgd_minimize(NULL, 2, x, &function, NULL, NULL, NULL, &r), PSGD_ERR_ARGUMENT,
                 "bounds of unknown 0 are 2 and 0.5");
    psgd__problem_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_gradient_ends_soon_and_is_named),
        cmocka_unit_test(right_derivatives_pass_the_check),
        cmocka_unit_test(the_result_is_filled_on_every_path),
        cmocka_unit_test(a_run_that_cannot_go_lower_says_so),
        cmocka_unit_test(a_large_value_is_not_convergence),
        cmocka_unit_test(bounds_hold_and_the_minimum_is_found),
        cmocka_unit_test(bounds_of_a_curved_valley),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
