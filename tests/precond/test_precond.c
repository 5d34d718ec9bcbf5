/* Updates worked by hand. */
#include "support.h"

static psgd_precond *make(const char *spec, int64_t n, const char *norm, double step)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set_number(options, "step", step));
    assert_ok(psgd_precond_create(NULL, spec, 1, &n, PSGD_F64, options, &precond));
    psgd_options_free(options);
    return precond;
}

static void assert_factor(const psgd_precond *precond, int count, const double *expected)
{
    double Q[16];
    assert_ok(psgd_precond_factor(precond, 0, Q));
    for (int i = 0; i < count; i++) assert_float_equal(Q[i], expected[i], 1e-14);
}

static void diag_update_matches_hand_calculation(void **state)
{
    (void)state;
    psgd_precond *precond = make("diag", 2, "max", 0.5);
    /* R = (4 - 1, 0.25 - 1) = (3, -0.75); q = 1 - 0.5 R / 3. */
    assert_ok(psgd_precond_update(precond, (double[]){1, 1}, (double[]){2, 0.5}));
    assert_factor(precond, 4, (double[]){0.5, 0, 0, 1.125});
    psgd_precond_free(precond);
}

/* q <- q - step sign(|q h| - |v / q|) q, the default of a diag. */
static void diag_update_by_entry_matches_hand_calculation(void **state)
{
    (void)state;
    psgd_precond *precond = make("diag", 2, "auto", 0.5);
    assert_ok(psgd_precond_update(precond, (double[]){1, 1}, (double[]){2, -0.5}));
    assert_factor(precond, 4, (double[]){0.5, 0, 0, 1.5});
    assert_ok(psgd_precond_update(precond, (double[]){1, 1}, (double[]){4, 0.4})); /* 2 = 2, 0.6 < 0.67 */
    assert_factor(precond, 4, (double[]){0.5, 0, 0, 2.25});
    psgd_precond_free(precond);
}

static void tri_update_matches_hand_calculation(void **state)
{
    (void)state;
    psgd_precond *precond = make("tri", 2, "max", 0.5);
    /* a = (2, 1), b = (1, 1): R = [3 1; 0 0]; Q = I - 0.5 R / 3. */
    assert_ok(psgd_precond_update(precond, (double[]){1, 1}, (double[]){2, 1}));
    assert_factor(precond, 4, (double[]){0.5, -1.0 / 6, 0, 1});
    psgd_precond_free(precond);
}

static void plain_rule_has_the_papers_factor_two(void **state)
{
    (void)state;
    psgd_precond *precond = make("scale", 2, "none", 0.01);
    /* R = ((4 - 1) + (0.25 - 1)) / 2 = 1.125; c = 1 - 2 * 0.01 * 1.125. */
    assert_ok(psgd_precond_update(precond, (double[]){1, 1}, (double[]){2, 0.5}));
    assert_factor(precond, 4, (double[]){0.9775, 0, 0, 0.9775});
    psgd_precond_free(precond);
}

/* Newton with v integrated out: only E[vv'] = I is taken, h stays a sample. */
static void integrated_newton_matches_hand_calculation(void **state)
{
    (void)state;
    psgd_options *options;
    psgd_precond *precond;
    double value, h[] = {2, 0.5};
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "integrate", "yes"));
    assert_ok(psgd_options_set(options, "init-scale", "2"));
    assert_ok(psgd_options_set(options, "step", "0.5"));
    assert_ok(psgd_precond_create(NULL, "diag", 1, (int64_t[]){2}, PSGD_F64, options, &precond));
    psgd_options_free(options);
    /* h'Ph + tr P^-1 = 4 * 4.25 + 2 / 4. */
    assert_ok(psgd_precond_criterion(precond, NULL, h, &value));
    assert_float_equal(value, 17.5, 1e-13);
    /* R = (16 - 1/4, 1 - 1/4) = (15.75, 0.75); q = 2 (1 - 0.5 sign R). */
    assert_ok(psgd_precond_update(precond, NULL, h));
    assert_factor(precond, 4, (double[]){1, 0, 0, 1});
    psgd_precond_free(precond);
}

static void zero_pair_changes_nothing(void **state)
{
    (void)state;
    psgd_precond *precond = make("tri", 2, "max", 0.5);
    assert_ok(psgd_precond_update(precond, (double[]){0, 0}, (double[]){0, 0}));
    assert_factor(precond, 4, (double[]){1, 0, 0, 1});
    psgd_precond_free(precond);
}

static void nan_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    psgd_precond *precond = make("tri", 2, "max", 0.5);
    assert_fails(psgd_precond_update(precond, (double[]){1, 1}, (double[]){1, NAN}), PSGD_ERR_NOT_FINITE,
                 "h is not a number at entry 1");
    assert_fails(psgd_precond_update(precond, (double[]){-INFINITY, 1}, (double[]){1, 1}), PSGD_ERR_NOT_FINITE,
                 "v is infinite at entry 0");
    assert_factor(precond, 4, (double[]){1, 0, 0, 1});
    psgd_precond_free(precond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integrated_newton_matches_hand_calculation),
        cmocka_unit_test(diag_update_matches_hand_calculation),
        cmocka_unit_test(diag_update_by_entry_matches_hand_calculation),
        cmocka_unit_test(tri_update_matches_hand_calculation),
        cmocka_unit_test(plain_rule_has_the_papers_factor_two),
        cmocka_unit_test(zero_pair_changes_nothing),
        cmocka_unit_test(nan_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
