/* A fit that is saved and loaded goes on to the bit; anything else is refused and changes nothing. */
#include "support.h"

enum { N = 12, MAX = 1 << 14 };

static psgd_precond *make(const char *spec, psgd_dtype dtype)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", "second"));
    assert_ok(psgd_options_set(options, "criterion", "fisher"));
    assert_ok(psgd_options_set(options, "unbiased", "yes"));
    assert_ok(psgd_options_set_number(options, "batch", 4));
    assert_ok(psgd_precond_create(NULL, spec, 2, (int64_t[]){3, 4}, dtype, options, &precond));
    psgd_options_free(options);
    return precond;
}

static void fit(psgd_precond *precond, int updates, uint64_t *random)
{
    for (int k = 0; k < updates; k++) {
        double v[N], h[N];
        for (int i = 0; i < N; i++) {
            v[i] = random_normal(random);
            h[i] = 0.1 * (i + 1) * random_normal(random);
        }
        assert_ok(psgd_precond_update(precond, v, h));
    }
}

static void saved_fit_goes_on_to_the_bit(void **state)
{
    (void)state;
    const char *specs[] = {"diag", "tri", "dense", "xmat", "scan", "kron(tri,t(norm))", "block(tri:5,diag)"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        static char bytes[MAX], one[MAX], two[MAX];
        psgd_precond *first = make(specs[i], PSGD_F64), *second = make(specs[i], PSGD_F64);
        uint64_t random = 7;
        fit(first, 20, &random);
        assert_in_range(psgd_precond_state_bytes(first), 1, MAX);
        assert_ok(psgd_precond_state_save(first, bytes));
        assert_ok(psgd_precond_state_load(second, psgd_precond_state_bytes(first), bytes));

        uint64_t again = random;
        fit(first, 200, &random);
        fit(second, 200, &again);
        assert_ok(psgd_precond_state_save(first, one));
        assert_ok(psgd_precond_state_save(second, two));
        assert_memory_equal(one, two, (size_t)psgd_precond_state_bytes(first));
        assert_int_equal(psgd_precond_updates(second), 220);
        psgd_precond_free(first);
        psgd_precond_free(second);
    }
}

static void foreign_bytes_are_refused(void **state)
{
    (void)state;
    static char bytes[MAX], before[MAX], after[MAX];
    psgd_precond *tri = make("tri", PSGD_F64), *tril = make("tril", PSGD_F64);
    uint64_t random = 3;
    fit(tri, 5, &random);
    int64_t size = psgd_precond_state_bytes(tri);
    assert_ok(psgd_precond_state_save(tri, bytes));
    assert_ok(psgd_precond_state_save(tril, before));

    assert_fails(psgd_precond_state_load(tril, size, bytes), PSGD_ERR_FORMAT, "another group");
    assert_fails(psgd_precond_state_load(tri, size - 1, bytes), PSGD_ERR_FORMAT, "instead of");
    assert_fails(psgd_precond_state_load(tri, 3, bytes), PSGD_ERR_FORMAT, "not the state");
    memset(bytes + size - 8, 0xff, 8);
    assert_fails(psgd_precond_state_load(tri, size, bytes), PSGD_ERR_FORMAT, "damaged");
    bytes[0] = 'x';
    assert_fails(psgd_precond_state_load(tri, size, bytes), PSGD_ERR_FORMAT, "not the state");

    assert_ok(psgd_precond_state_save(tril, after));
    assert_memory_equal(before, after, (size_t)psgd_precond_state_bytes(tril));
    assert_int_equal(psgd_precond_updates(tri), 5);
    psgd_precond_free(tri);
    psgd_precond_free(tril);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_fit_goes_on_to_the_bit),
        cmocka_unit_test(foreign_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
