/* Update rules as a user meets them: which one auto takes, what is refused, where a fit ends. */
#include "support.h"

static psgd_options *options_of(const char *words)
{
    psgd_options *made;
    char copy[300], *save = NULL;
    assert_ok(psgd_options_create(NULL, &made));
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char name[50], value[50];
        assert_int_equal(sscanf(word, "%49s %49s", name, value), 2);
        assert_ok(psgd_options_set(made, name, value));
    }
    return made;
}

static psgd_status create(const char *spec, int ndim, const int64_t *shape, psgd_dtype dtype, const char *words,
                          psgd_precond **made)
{
    psgd_options *options = options_of(words);
    psgd_status status = psgd_precond_create(NULL, spec, ndim, shape, dtype, options, made);
    psgd_options_free(options);
    return status;
}

static psgd_precond *new_precond(const char *spec, int ndim, const int64_t *shape, const char *words)
{
    psgd_precond *made;
    assert_ok(create(spec, ndim, shape, PSGD_F64, words, &made));
    return made;
}

static void fill(uint64_t *seed, int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = random_normal(seed);
}

static void a_rule_that_does_not_fit_names_the_group_that_would(void **state)
{
    (void)state;
    static const int64_t shape[] = {6, 4}, flat = 24;
    psgd_precond *made;
    assert_fails(create("kron(tri,norm)", 2, shape, PSGD_F32, "rule pro", &made), PSGD_ERR_UNSUPPORTED,
                 "tri (column 6) does not: take the group kron(dense,dense), or rule eq");
    assert_fails(create("sum(block(tri:3,scale:2):5,t(xmat:4):4,diag)", 1, &flat, PSGD_F32, "rule quad", &made),
                 PSGD_ERR_UNSUPPORTED, "take the group sum(dense:5,xmat:4,diag), or rule eq");
    assert_fails(create("lra(2)", 1, &flat, PSGD_F32, "rule qep", &made), PSGD_ERR_UNSUPPORTED, "take the group diag");
    assert_fails(create("dense", 1, &flat, PSGD_F32, "rule qeq,norm max", &made), PSGD_ERR_ARGUMENT,
                 "rule qeq has the normaliser second");
    assert_fails(create("dense", 1, &flat, PSGD_F32, "rule prop", &made), PSGD_ERR_ARGUMENT, "option rule is one of");
}

/* The same updates by two option lists give the same bits. */
static bool same_fit(const char *spec, const char *words, const char *others)
{
    static const int64_t shape[] = {6, 4};
    uint64_t seed = 3;
    double v[24], h[24], x[24], y[24];
    psgd_precond *a = new_precond(spec, 2, shape, words), *b = new_precond(spec, 2, shape, others);
    for (int t = 0; t < 5; t++) {
        fill(&seed, 24, v);
        fill(&seed, 24, h);
        assert_ok(psgd_precond_update(a, v, h));
        assert_ok(psgd_precond_update(b, v, h));
    }
    assert_ok(psgd_precond_apply(a, PSGD_APPLY_P, h, x));
    assert_ok(psgd_precond_apply(b, PSGD_APPLY_P, h, y));
    psgd_precond_free(a);
    psgd_precond_free(b);
    return memcmp(x, y, sizeof x) == 0;
}

static void auto_is_pro_where_it_fits(void **state)
{
    (void)state;
    assert_true(same_fit("kron(dense,dense)", "rule auto", "rule pro,norm second"));
    assert_true(same_fit("kron(dense,dense)", "rule auto,norm spectral", "rule eq,norm spectral"));
    assert_true(same_fit("kron(dense,dense)", "rule auto,norm second", "rule pro"));
    assert_true(same_fit("kron(dense,tri)", "rule auto", "rule eq"));
    assert_true(same_fit("kron(dense,dense)", "rule eq", "step 0.01"));
    assert_false(same_fit("kron(dense,dense)", "rule pro", "rule quad"));
    assert_false(same_fit("kron(dense,dense)", "rule pro,norm-decay 0.5", "rule pro"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_that_does_not_fit_names_the_group_that_would),
        cmocka_unit_test(auto_is_pro_where_it_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
