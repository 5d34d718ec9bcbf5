/* The descriptions of options: each is complete, and what it promises is what the library accepts. */
#include "support.h"

#include "core/options.h"
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

/* psgd and a criterion have a name of their own, and defaults. */
static void test_defaults_of_both_criteria(void **state)
{
    (void)state;
    static const char *const methods[] = {"psgd-newton", "psgd-fisher"}, *const criteria[] = {"newton", "fisher"};
    for (int m = 0; m < 2; m++) {
        psgd_option_info option;
        for (int i = 0; psgd_optimizer_option(methods[m], i, &option); i++) {
            assert_true(*option.default_value != 0);
            if (!strcmp(option.name, "criterion")) assert_string_equal(option.default_value, criteria[m]);
        }
    }
}

static void assert_value(const psgd_options *options, const char *name, const char *value)
{
    assert_non_null(psgd__options_find(options, name));
    assert_string_equal(psgd__options_find(options, name), value);
}

static void test_a_text_sets_several_options(void **state)
{
    (void)state;
    psgd_options *options;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_parse(options, "criterion=fisher,lr=0.05"));
    assert_value(options, "criterion", "fisher");
    assert_value(options, "lr", "0.05");
    assert_ok(psgd_options_parse(options, " lr = 0.1 ,group=kron(t(block(diag:2,tri)),tri),lr=0.2, init =first \n"));
    assert_value(options, "criterion", "fisher");
    assert_value(options, "lr", "0.2");
    assert_value(options, "group", "kron(t(block(diag:2,tri)),tri)");
    assert_value(options, "init", "first");
    assert_ok(psgd_options_parse(options, " "));
    psgd_options_free(options);
}

static void test_a_text_that_is_no_list_sets_nothing(void **state)
{
    (void)state;
    static const char *const wrong[] = {"lr=1,fisher", "lr=1,", ",lr=1", "lr=1,=2", "lr=1,group=kron(tri,tri",
                                        "lr=1,a=)("};
    psgd_options *options;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "lr", "0.5"));
    for (int i = 0; i < 6; i++) {
        assert_fails(psgd_options_parse(options, wrong[i]), PSGD_ERR_ARGUMENT, i < 4 ? "name=value" : "brackets");
        assert_value(options, "lr", "0.5");
    }
    assert_fails(psgd_options_parse(options, NULL), PSGD_ERR_ARGUMENT, "NULL");
    assert_fails(psgd_options_parse(NULL, "lr=1"), PSGD_ERR_ARGUMENT, "NULL");
    psgd_options_free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_description_is_complete),
        cmocka_unit_test(test_what_is_described_is_what_is_accepted),
        cmocka_unit_test(test_an_excluded_bound_is_refused),
        cmocka_unit_test(test_defaults_are_those_of_the_method),
        cmocka_unit_test(test_defaults_of_both_criteria),
        cmocka_unit_test(test_a_text_sets_several_options),
        cmocka_unit_test(test_a_text_that_is_no_list_sets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
