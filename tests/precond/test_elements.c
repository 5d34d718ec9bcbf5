/* psgd_precond_elements: the layout that include/psgd/precond.h promises, against the dense factors. */
#include "support.h"

enum { MAX_ELEMENTS = 256 };

static psgd_precond *fitted(const char *spec, int ndim, const int64_t *shape)
{
    psgd_precond *precond;
    assert_ok(psgd_precond_create(NULL, spec, ndim, shape, PSGD_F64, NULL, &precond));
    int64_t n = psgd_precond_size(precond);
    double v[MAX_ELEMENTS], h[MAX_ELEMENTS];
    for (int64_t step = 0; step < 3; step++) {
        assert_ok(psgd_normal_fill(PSGD_F64, 1, 0, (uint64_t)step, 0, n, v));
        for (int64_t i = 0; i < n; i++) h[i] = (1 + 0.2 * (double)i) * v[i] + 0.3 * v[(i + 1) % n];
        assert_ok(psgd_precond_update(precond, v, h));
    }
    return precond;
}

/* tri, tril and dense are squares, whatever the library keeps: packed with a few fibres, an inverse, ... */
static void squares_are_the_dense_factors(void **state)
{
    static const struct {
        const char *spec;
        int ndim;
        int64_t shape[2];
    } cases[] = {
        {"tri", 1, {5}},
        {"tril", 1, {5}},
        {"t(tri)", 1, {5}},
        {"dense", 1, {4}},
        {"kron(tri,tril)", 2, {3, 12}},
        {"kron(tril,dense)", 2, {12, 3}},
    };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        psgd_precond *precond = fitted(cases[k].spec, cases[k].ndim, cases[k].shape);
        double elements[MAX_ELEMENTS], Q[MAX_ELEMENTS];
        int64_t at = 0;
        assert_ok(psgd_precond_elements(precond, elements));
        for (int i = 0; i < psgd_precond_factor_count(precond); i++) {
            int64_t n = psgd_precond_factor_size(precond, i);
            assert_ok(psgd_precond_factor(precond, i, Q));
            for (int64_t j = 0; j < n * n; j++) assert_float_equal(elements[at + j], Q[j], 1e-15);
            at += n * n;
        }
        assert_int_equal(psgd_precond_element_count(precond), at);
        psgd_precond_free(precond);
    }
}

static void others_are_their_arrays(void **state)
{
    (void)state;
    double x[MAX_ELEMENTS], Q[MAX_ELEMENTS];
    psgd_precond *precond = fitted("norm", 1, (int64_t[]){4});
    assert_int_equal(psgd_precond_element_count(precond), 7);
    assert_ok(psgd_precond_elements(precond, x));
    assert_ok(psgd_precond_factor(precond, 0, Q));
    for (int i = 0; i < 4; i++) assert_float_equal(x[i], Q[5 * i], 1e-15);
    for (int i = 0; i < 3; i++) assert_float_equal(x[4 + i], Q[4 * i + 3], 1e-15);
    psgd_precond_free(precond);

    precond = fitted("block(diag:2,tri)", 1, (int64_t[]){4}); /* C [2][2], diag [2], tri [2][2] */
    assert_int_equal(psgd_precond_element_count(precond), 10);
    assert_ok(psgd_precond_elements(precond, x));
    assert_ok(psgd_precond_factor(precond, 0, Q));
    const double expected[] = {Q[2], Q[3], Q[6], Q[7], Q[0], Q[5], Q[10], Q[11], 0, Q[15]};
    for (int i = 0; i < 10; i++) assert_float_equal(x[i], expected[i], 1e-15);
    psgd_precond_free(precond);

    precond = fitted("sum(lra(2):6,splu(1):3,identity:1)", 1, (int64_t[]){10});
    assert_int_equal(psgd_precond_element_count(precond), 6 + 2 * 2 * 6 + 2 * (1 + 2 + 2));
    psgd_precond_free(precond);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    double x[1];
    assert_int_equal(psgd_precond_element_count(NULL), 0);
    assert_fails(psgd_precond_elements(NULL, x), PSGD_ERR_ARGUMENT, "needs a preconditioner");
    psgd_precond *precond = fitted("diag", 1, (int64_t[]){2});
    assert_fails(psgd_precond_elements(precond, NULL), PSGD_ERR_ARGUMENT, "room for them");
    psgd_precond_free(precond);
    precond = fitted("identity", 1, (int64_t[]){2}); /* has none */
    assert_ok(psgd_precond_elements(precond, NULL));
    psgd_precond_free(precond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squares_are_the_dense_factors),
        cmocka_unit_test(others_are_their_arrays),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
