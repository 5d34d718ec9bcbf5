/* The descriptions of options: each is complete, and what it promises is what the library accepts. */
#include "support.h"

#include "core/text.h"

static psgd_status take(const psgd_options *options)
{
    psgd_precond *precond;
    psgd_status status = psgd_precond_create(NULL, "kron(diag,diag)", 2, (int64_t[]){2, 2}, PSGD_F64, options,
                                             &precond);
    if (status == PSGD_OK) psgd_precond_free(precond);
    return status;
}

static psgd_status take_value(const char *name, const char *value)
{
    psgd_options *options;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, name, value));
    psgd_status status = take(options);
    psgd_options_free(options);
    return status;
}

static int optimizer_option(int index, psgd_option_info *option)
{
    return psgd_optimizer_option(NULL, index, option);
}

static void test_every_description_is_complete(void **state)
{
    (void)state;
    static int (*const sources[])(int, psgd_option_info *) = {psgd_precond_option, psgd_minimize_option,
                                                              psgd_plan_option, optimizer_option};
    for (int s = 0; s < 4; s++) {
        psgd_option_info option;
        int count = 0;
        for (; sources[s](count, &option); count++) {
            assert_true(*option.name && *option.help);
            bool bounded = option.type == PSGD_OPTION_REAL || option.type == PSGD_OPTION_INTEGER;
            assert_true(!bounded || option.min < option.max);
            assert_int_equal(option.choices != NULL, option.type == PSGD_OPTION_CHOICE);
        }
        assert_true(count > 3);
        assert_false(sources[s](count + 1, &option));
        assert_false(sources[s](-1, &option));
    }
}

/* Defaults and choices are accepted, a bound is accepted unless it is excluded, what lies beyond is refused. */
static void test_what_is_described_is_what_is_accepted(void **state)
{
    (void)state;
    psgd_option_info option;
    for (int i = 0; psgd_precond_option(i, &option); i++) {
        char beyond[64];
        if (*option.default_value) assert_ok(take_value(option.name, option.default_value));
        if (option.type == PSGD_OPTION_CHOICE)
            assert_fails(take_value(option.name, "?"), PSGD_ERR_ARGUMENT, option.name);
        if (option.type != PSGD_OPTION_REAL && option.type != PSGD_OPTION_INTEGER) continue;
        psgd__print(beyond, sizeof beyond, option.type == PSGD_OPTION_REAL ? "%.17g" : "%.0f", option.min - 1);
        assert_fails(take_value(option.name, beyond), PSGD_ERR_ARGUMENT, option.name);
        psgd__print(beyond, sizeof beyond, option.type == PSGD_OPTION_REAL ? "%.17g" : "%.0f", option.max);
        if (option.max_excluded) assert_fails(take_value(option.name, beyond), PSGD_ERR_ARGUMENT, option.name);
        psgd__print(beyond, sizeof beyond, "%.17g", option.min);
        if (option.min_excluded) assert_fails(take_value(option.name, beyond), PSGD_ERR_ARGUMENT, option.name);
        static const char *const no_numbers[] = {"nan", "-inf", "1e999", "", "1x"};
        for (int k = 0; k < 5; k++) assert_int_equal(take_value(option.name, no_numbers[k]), PSGD_ERR_ARGUMENT);
    }
}

/* The same bounds of optimizers, where most of those that are excluded are. */
static void test_an_excluded_bound_is_refused(void **state)
{
    (void)state;
    const int64_t n = 2;
    const psgd_tensor tensor = {.ndim = 1, .shape = &n};
    psgd_option_info option;
    int excluded = 0;
    for (int i = 0; psgd_optimizer_option("psgd", i, &option); i++) {
        if (option.type != PSGD_OPTION_REAL || !option.min_excluded) continue;
        psgd_options *options;
        psgd_optimizer *made;
        assert_ok(psgd_options_create(NULL, &options));
        assert_ok(psgd_options_set_number(options, option.name, option.min));
        assert_fails(psgd_optimizer_create(NULL, "psgd", 1, &tensor, PSGD_F64, options, &made), PSGD_ERR_ARGUMENT,
                     "above");
        psgd_options_free(options);
        excluded++;
    }
    assert_true(excluded > 2);
}

/* An option whose default depends on the method has none for no method, and one for each method. */
static void test_defaults_are_those_of_the_method(void **state)
{
    (void)state;
    psgd_option_info any, adam, momentum;
    bool found = false;
    for (int i = 0; psgd_optimizer_option(NULL, i, &any); i++) {
        assert_true(psgd_optimizer_option("adam", i, &adam) && psgd_optimizer_option("momentum", i, &momentum));
        assert_string_equal(any.name, adam.name);
        if (*any.default_value) assert_string_equal(any.default_value, adam.default_value);
        assert_true(*adam.default_value != 0);
        if (strcmp(any.name, "momentum")) continue;
        assert_string_equal(any.default_value, "");
        assert_string_equal(momentum.default_value, "0.9");
        found = true;
    }
    assert_true(found);
    assert_false(psgd_optimizer_option("no-such-method", 0, &any));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_description_is_complete),
        cmocka_unit_test(test_what_is_described_is_what_is_accepted),
        cmocka_unit_test(test_an_excluded_bound_is_refused),
        cmocka_unit_test(test_defaults_are_those_of_the_method),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
