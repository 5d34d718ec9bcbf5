/* Updates worked by hand, for the groups, normalisers and criteria that test_precond.c does not have. Q starts as I, so
 * A = h and B = v. */
#include "support.h"

typedef struct setting {
    const char *name, *value;
} setting;

static psgd_precond *make(const char *spec, int ndim, const int64_t *shape, const setting *settings)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    for (; settings->name; settings++) assert_ok(psgd_options_set(options, settings->name, settings->value));
    assert_ok(psgd_precond_create(NULL, spec, ndim, shape, PSGD_F64, options, &precond));
    psgd_options_free(options);
    return precond;
}

static void assert_matrix(const psgd_precond *precond, int factor, int count, const double *expected)
{
    double Q[64];
    assert_ok(psgd_precond_factor(precond, factor, Q));
    for (int i = 0; i < count; i++) {
        if (fabs(Q[i] - expected[i]) > 1e-14) print_error("entry %d is %.17g, not %.17g\n", i, Q[i], expected[i]);
        assert_true(fabs(Q[i] - expected[i]) <= 1e-14);
    }
}

#define SETTINGS(...)                                                                                                  \
    (const setting[])                                                                                                  \
    {                                                                                                                  \
        __VA_ARGS__,                                                                                                   \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

/* S = hh' - vv' for h = (2, 0, 1), v = (1, 1, 1):  3 -1  1
 *                                                 -1 -1 -1
 *                                                  1 -1  0 */
static const double ones[] = {1, 1, 1}, h3[] = {2, 0, 1};
static const int64_t three[] = {3}, two[] = {2}, one[] = {1};

static void once(const char *spec, const char *norm, const char *step, const double *expected)
{
    psgd_precond *precond = make(spec, 1, three, SETTINGS({"norm", norm}, {"step", step}));
    assert_ok(psgd_precond_update(precond, ones, h3));
    assert_matrix(precond, 0, 9, expected);
    psgd_precond_free(precond);
}

static void norm_keeps_diagonal_and_last_column(void **state)
{
    (void)state;
    /* R = [3 0 1; 0 -1 -1; 0 0 0], largest 3: Q = I - 0.2 R. */
    once("norm", "max", "0.6", (double[]){0.4, 0, -0.2, 0, 1.2, 0.2, 0, 0, 1});
    once("block(diag:2,scale:1)", "max", "0.6", (double[]){0.4, 0, -0.2, 0, 1.2, 0.2, 0, 0, 1});
    once("t(norm)", "max", "0.6", (double[]){0.4, 0, 0, 0, 1.2, 0, -0.2, 0.2, 1});
}

static void bnorm_keeps_its_corner(void **state)
{
    (void)state;
    psgd_precond *precond = make("bnorm", 1, three, SETTINGS({"norm", "max"}, {"step", "0.5"}));
    /* h = (2, 0, 3): R = [3 0 5; 0 -1 -1; 0 0 (8 is left out)], largest 5: Q = I - 0.1 R. */
    assert_ok(psgd_precond_update(precond, ones, (double[]){2, 0, 3}));
    assert_matrix(precond, 0, 9, (double[]){0.7, 0, -0.5, 0, 1.1, 0.1, 0, 0, 1});
    psgd_precond_free(precond);
}

static void a_turned_block_is_lower(void **state)
{
    (void)state;
    /* [A 0; C B] with B lower triangular is all of the lower triangle here. */
    once("t(block(diag:1,tri:2))", "max", "0.6", (double[]){0.4, 0, 0, 0.2, 1.2, 0, -0.2, 0.2, 1});
    once("tril", "max", "0.6", (double[]){0.4, 0, 0, 0.2, 1.2, 0, -0.2, 0.2, 1});
    /* Upper, with the identity fixed: R = [3 -1 1; 0 -1 -1; 0 0 0]. */
    once("block(tri:2,identity:1)", "max", "0.6", (double[]){0.4, 0.2, -0.2, 0, 1.2, 0.2, 0, 0, 1});
}

static void parts_of_a_sum_have_their_own_norms(void **state)
{
    (void)state;
    /* Part 1: R = 3, Q = 1 - 0.6. Part 2: R = [-1 -1; 0 0], Q = I + 0.6 [1 1; 0 0]. */
    once("sum(scale:1,tri:2)", "max", "0.6", (double[]){0.4, 0, 0, 0, 1.6, 0.6, 0, 0, 1});
    /* scale takes the mean of the diagonal: (3 - 1) / 2. */
    once("sum(scale:2,diag:1)", "max", "0.6", (double[]){0.4, 0, 0, 0, 0.4, 0, 0, 0, 1});
}

static void spectral_is_exact_for_xmat(void **state)
{
    (void)state;
    /* R = [3 0 1; 0 -1 0; 1 0 0]; the eigenvalues of [3 1; 1 0] are (3 +- sqrt 13) / 2. c = 0.5 / ||R||. */
    double c = 1 / (3 + sqrt(13));
    once("xmat", "spectral", "0.5", (double[]){1 - 3 * c, 0, -c, 0, 1 + c, 0, -c, 0, 1});
    once("xmat", "max", "0.6", (double[]){0.4, 0, -0.2, 0, 1.2, 0, -0.2, 0, 1});
}

static void spectral_is_exact_for_dense_on_one_fibre(void **state)
{
    (void)state;
    psgd_precond *precond = make("dense", 1, two, SETTINGS({"norm", "spectral"}, {"step", "0.5"}));
    /* h = (2, 1), v = (1, 1): R = [3 1; 1 0]. */
    double c = 1 / (3 + sqrt(13));
    assert_ok(psgd_precond_update(precond, ones, (double[]){2, 1}));
    assert_matrix(precond, 0, 4, (double[]){1 - 3 * c, -c, -c, 1});
    psgd_precond_free(precond);
}

static void spectral_is_the_smaller_bound_for_triangles(void **state)
{
    (void)state;
    psgd_precond *precond = make("tri", 1, two, SETTINGS({"norm", "spectral"}, {"step", "0.5"}));
    /* R = [3 1; 0 0]: Frobenius sqrt 10; column sums 3 and 1, row sums 4 and 0, sqrt(3 * 4) is more. */
    double c = 0.5 / sqrt(10);
    assert_ok(psgd_precond_update(precond, ones, (double[]){2, 1}));
    assert_matrix(precond, 0, 4, (double[]){1 - 3 * c, -c, 0, 1});
    psgd_precond_free(precond);

    precond = make("tri", 1, two, SETTINGS({"norm", "spectral"}, {"step", "0.5"}));
    /* R = diag(1, -1): Frobenius sqrt 2, rows and columns 1. */
    assert_ok(psgd_precond_update(precond, (double[]){0, 1}, (double[]){1, 0}));
    assert_matrix(precond, 0, 4, (double[]){0.5, 0, 0, 1.5});
    psgd_precond_free(precond);
}

static void second_keeps_a_running_maximum(void **state)
{
    (void)state;
    psgd_precond *precond = make("diag", 1, two, SETTINGS({"norm", "second"}, {"step", "0.5"}));
    /* a^2 + b^2 = (5, 1.25), L = 5; R = (3, -0.75); q = 1 - 0.1 R. */
    assert_ok(psgd_precond_update(precond, ones, (double[]){2, 0.5}));
    assert_matrix(precond, 0, 4, (double[]){0.7, 0, 0, 1.075});
    /* b = v / q = (1, 2), a = 0: l = 4, L = 0.9 * 5 + 0.1 * 4 = 4.9; R = (-1, -4). */
    assert_ok(psgd_precond_update(precond, (double[]){0.7, 2.15}, (double[]){0, 0}));
    assert_matrix(precond, 0, 4, (double[]){0.7 * (1 + 0.5 / 4.9), 0, 0, 1.075 * (1 + 2 / 4.9)});
    psgd_precond_free(precond);
}

static void factors_of_a_kron_see_their_own_fibres(void **state)
{
    (void)state;
    int64_t shape[] = {2, 2};
    psgd_precond *precond = make("scaw", 2, shape, SETTINGS({"norm", "max"}, {"step", "0.6"}));
    /* A = [2 1; 0 1], B = [1 1; 1 1]. AA' - BB' = [3 -1; -1 -1], its diagonal by 3: Q1 = I - 0.2 R1.
     * A'A - B'B = [2 0; 0 0] by 2: Q2 = I - 0.3 R2. */
    double x[] = {1, 1, 1, 1};
    assert_ok(psgd_precond_update(precond, x, (double[]){2, 1, 0, 1}));
    assert_int_equal(psgd_precond_factor_count(precond), 2);
    assert_matrix(precond, 0, 4, (double[]){0.4, 0, 0, 1.2});
    assert_matrix(precond, 1, 4, (double[]){0.4, 0, 0, 1});
    /* PG = Q1'Q1 G Q2'Q2 with G of ones: rows times (0.16, 1.44), columns times (0.16, 1). */
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, x, x));
    const double expected[] = {0.0256, 0.16, 0.2304, 1.44};
    for (int i = 0; i < 4; i++) assert_float_equal(x[i], expected[i], 1e-15);
    psgd_precond_free(precond);
}

static void init_scale_is_shared_by_all_factors(void **state)
{
    (void)state;
    int64_t shape[] = {1, 2, 2};
    psgd_precond *precond = make("kron(diag,identity,bnorm)", 3, shape, SETTINGS({"init-scale", "8"}));
    assert_matrix(precond, 0, 1, (double[]){2});
    assert_matrix(precond, 1, 4, (double[]){1, 0, 0, 1});
    assert_matrix(precond, 2, 4, (double[]){2, 0, 0, 1});
    psgd_precond_free(precond);
}

static void fisher_adds_damping_times_v(void **state)
{
    (void)state;
    psgd_precond *precond = make(
        "diag", 1, two, SETTINGS({"criterion", "fisher"}, {"damping", "0.5"}, {"norm", "none"}, {"step", "0.01"}));
    /* h = g + 0.5 v = (2, 3): R = (4 - 4, 9 - 4) = (0, 5); q = 1 - 2 * 0.01 R. */
    assert_ok(psgd_precond_update(precond, (double[]){2, 2}, (double[]){1, 2}));
    assert_matrix(precond, 0, 4, (double[]){1, 0, 0, 0.9});
    psgd_precond_free(precond);
}

static void v_integrated_out(void **state)
{
    (void)state;
    const setting *settings = SETTINGS({"criterion", "fisher"}, {"damping", "0.5"}, {"norm", "none"}, {"step", "0.01"},
                                       {"integrate", "yes"});
    psgd_precond *precond = make("diag", 1, two, settings);
    /* R = g^2 + 0.25 - 1 = (3.25, -0.75). */
    assert_ok(psgd_precond_update(precond, NULL, (double[]){2, 0}));
    assert_matrix(precond, 0, 4, (double[]){0.935, 0, 0, 1.015});
    psgd_precond_free(precond);

    /* kron(diag,norm) on 2 x 2, Q = I: the expectation of the other mode counts its two entries.
     * GG' + 2 (0.25 - 1) I, G = [1 2; 0 1]: diagonal (5 - 1.5, 1 - 1.5). G'G = [1 2; 2 5]: norm (1 - 1.5, 5 - 1.5), 2.
     */
    int64_t shape[] = {2, 2};
    precond = make("scan", 2, shape, settings);
    assert_ok(psgd_precond_update(precond, NULL, (double[]){1, 2, 0, 1}));
    assert_matrix(precond, 0, 4, (double[]){0.93, 0, 0, 1.01});
    assert_matrix(precond, 1, 4, (double[]){1.01, -0.04, 0, 0.93});
    psgd_precond_free(precond);
}

static void pairs_are_averaged(void **state)
{
    (void)state;
    psgd_precond *precond = make("diag", 1, one, SETTINGS({"pairs", "2"}, {"norm", "none"}, {"step", "0.01"}));
    /* R = ((9 - 1) + (1 - 4)) / 2 = 2.5; then one pair alone, R = (0.95^2 * 4 - 4 / 0.95^2). */
    assert_ok(psgd_precond_update_pairs(precond, 2, (double[]){1, 2}, (double[]){3, 1}));
    assert_matrix(precond, 0, 1, (double[]){0.95});
    double r = 0.9025 * 4 - 4 / 0.9025;
    assert_ok(psgd_precond_update(precond, (double[]){2}, (double[]){2}));
    assert_matrix(precond, 0, 1, (double[]){0.95 * (1 - 0.02 * r)});
    psgd_precond_free(precond);
}

static void the_unbiased_variant_takes_the_average_out(void **state)
{
    (void)state;
    psgd_precond *precond = make("diag", 1, one,
                                 SETTINGS({"criterion", "fisher"}, {"unbiased", "yes"}, {"batch", "4"},
                                          {"average", "0.9"}, {"norm", "none"}, {"step", "0.01"}));
    /* g = 2: there is no s yet, h = 2, R = 4 - 1. */
    assert_ok(psgd_precond_update(precond, ones, (double[]){2}));
    double q = 1 - 0.02 * 3;
    assert_matrix(precond, 0, 1, (double[]){q});
    /* g = 0: s = 0.2 / (1 - 0.9) = 2, h = 0 - 2 + 2 / 2. */
    assert_ok(psgd_precond_update(precond, ones, (double[]){0}));
    q *= 1 - 0.02 * (q * q - 1 / (q * q));
    assert_matrix(precond, 0, 1, (double[]){q});
    /* g = 3: s = 0.9 * 0.2 / (1 - 0.81), h = 3 - s / 2. */
    double h = 3 - 0.5 * 0.18 / 0.19;
    assert_ok(psgd_precond_update(precond, ones, (double[]){3}));
    assert_matrix(precond, 0, 1, (double[]){q * (1 - 0.02 * (q * q * h * h - 1 / (q * q)))});
    psgd_precond_free(precond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_keeps_diagonal_and_last_column),
        cmocka_unit_test(bnorm_keeps_its_corner),
        cmocka_unit_test(a_turned_block_is_lower),
        cmocka_unit_test(parts_of_a_sum_have_their_own_norms),
        cmocka_unit_test(spectral_is_exact_for_xmat),
        cmocka_unit_test(spectral_is_exact_for_dense_on_one_fibre),
        cmocka_unit_test(spectral_is_the_smaller_bound_for_triangles),
        cmocka_unit_test(second_keeps_a_running_maximum),
        cmocka_unit_test(factors_of_a_kron_see_their_own_fibres),
        cmocka_unit_test(init_scale_is_shared_by_all_factors),
        cmocka_unit_test(fisher_adds_damping_times_v),
        cmocka_unit_test(v_integrated_out),
        cmocka_unit_test(pairs_are_averaged),
        cmocka_unit_test(the_unbiased_variant_takes_the_average_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
