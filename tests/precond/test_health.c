/* Factors, the spectrum of PH and the running average, where they are known. */
#include "support.h"

#include <psgd/health.h>

static void extremes_of_a_factor(void **state)
{
    (void)state;
    psgd_precond *precond;
    psgd_options *options;
    double condition, min, max;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "step", "0.5"));
    assert_ok(psgd_options_set(options, "norm", "max"));
    assert_ok(psgd_precond_create(NULL, "tri", 1, (int64_t[]){2}, PSGD_F64, options, &precond));
    /* a = (2, 1), b = (1, 1): R = [3 1; 0 0]; Q = I - 0.5 R / 3 = [1/2 -1/6; 0 1]. The squares of its singular values
     * add up to 1/4 + 1/36 + 1 = 46/36 and multiply to 1/4. */
    assert_ok(psgd_precond_update(precond, (double[]){1, 1}, (double[]){2, 1}));
    assert_ok(psgd_precond_factor_health(precond, 0, &condition, &min, &max));
    double half = 23.0 / 36, root = sqrt(half * half - 0.25);
    assert_float_equal(min, 0.5, 1e-15);
    assert_float_equal(max, 1, 1e-15);
    assert_float_equal(condition, sqrt((half + root) / (half - root)), 1e-12);
    assert_fails(psgd_precond_factor_health(precond, 1, &condition, NULL, NULL), PSGD_ERR_ARGUMENT, "no factor 1");
    psgd_precond_free(precond);
    psgd_options_free(options);
}

static psgd_status diagonal_hessian(void *data, const void *x, void *y)
{
    for (int i = 0; i < 4; i++) ((double *)y)[i] = ((const double *)data)[i] * ((const double *)x)[i];
    return PSGD_OK;
}

static psgd_status broken_hessian(void *data, const void *x, void *y)
{
    (void)data;
    (void)x;
    (void)y;
    return PSGD_ERR_CALLBACK;
}

/* At Q = I the eigenvalues are those of H; more steps than numbers find all of them. */
static void spectrum_of_a_known_hessian(void **state)
{
    (void)state;
    double h[] = {3, -2, 0.5, 7}, values[8], weights[8], sum = 0;
    int count;
    psgd_precond *precond;
    assert_ok(psgd_precond_create(NULL, "diag", 1, (int64_t[]){4}, PSGD_F64, NULL, &precond));
    assert_ok(psgd_precond_spectrum(precond, diagonal_hessian, h, 8, 1, values, weights, &count));
    assert_int_equal(count, 4);
    assert_float_equal(values[0], -2, 1e-10);
    assert_float_equal(values[1], 0.5, 1e-10);
    assert_float_equal(values[2], 3, 1e-10);
    assert_float_equal(values[3], 7, 1e-10);
    for (int i = 0; i < 4; i++) sum += weights[i];
    assert_float_equal(sum, 1, 1e-12);
    assert_ok(psgd_precond_spectrum(precond, diagonal_hessian, h, 2, 1, values, NULL, &count));
    assert_int_equal(count, 2);
    assert_true(values[0] > -2 - 1e-9 && values[1] < 7 + 1e-9);
    assert_fails(psgd_precond_spectrum(precond, broken_hessian, h, 2, 1, values, NULL, &count), PSGD_ERR_CALLBACK,
                 "failed");
    assert_fails(psgd_precond_spectrum(precond, diagonal_hessian, h, 0, 1, values, NULL, &count), PSGD_ERR_ARGUMENT,
                 "steps");
    psgd_precond_free(precond);
}

/* Fitted to H = diag(3, -2, 0.5, 7), PH has eigenvalues near 1 and -1. */
static void spectrum_after_a_fit(void **state)
{
    (void)state;
    double h[] = {3, -2, 0.5, 7}, values[4], v[4], hv[4];
    int count;
    uint64_t seed = 4;
    psgd_precond *precond;
    assert_ok(psgd_precond_create(NULL, "diag", 1, (int64_t[]){4}, PSGD_F64, NULL, &precond));
    for (int t = 0; t < 3000; t++) {
        for (int i = 0; i < 4; i++) v[i] = random_normal(&seed), hv[i] = h[i] * v[i];
        assert_ok(psgd_precond_update(precond, v, hv));
    }
    assert_ok(psgd_precond_spectrum(precond, diagonal_hessian, h, 4, 1, values, NULL, &count));
    for (int i = 0; i < count; i++) assert_float_equal(fabs(values[i]), 1, 0.1);
    psgd_precond_free(precond);
}

static void average_starts_without_bias(void **state)
{
    (void)state;
    psgd_health *health = (psgd_health *)1; /* anything but NULL */
    assert_fails(psgd_health_create(NULL, 1, &health), PSGD_ERR_ARGUMENT, "decay");
    assert_null(health);
    assert_ok(psgd_health_create(NULL, 0.5, &health));
    assert_true(isnan(psgd_health_average(health)));
    assert_ok(psgd_health_add(health, 8));
    assert_float_equal(psgd_health_average(health), 8, 1e-15);
    assert_ok(psgd_health_add(health, 2));
    assert_float_equal(psgd_health_average(health), (0.25 * 8 + 0.5 * 2) / 0.75, 1e-15);
    assert_float_equal(psgd_health_last(health), 2, 0);
    assert_fails(psgd_health_add(health, NAN), PSGD_ERR_NOT_FINITE, "not finite");
    assert_float_equal(psgd_health_last(health), 2, 0);
    psgd_health_free(health);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extremes_of_a_factor),
        cmocka_unit_test(spectrum_of_a_known_hessian),
        cmocka_unit_test(spectrum_after_a_fit),
        cmocka_unit_test(average_starts_without_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
