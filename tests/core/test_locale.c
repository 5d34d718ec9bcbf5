/* Under a locale with a decimal comma everything reads and writes numbers as in any other. */
#include "support.h"

#include "core/text.h"

#include <locale.h>
#include <unistd.h>

/* The German locale, compiled into a folder of our own. */
static int use_comma(void **state)
{
    (void)state;
    char folder[] = "test_locale.XXXXXX", command[256];
    if (!mkdtemp(folder)) return -1;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 ./%s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    bool made = system(command) == 0;
    setenv("LOCPATH", folder, 1);
    bool used = made && setlocale(LC_ALL, "de_DE.UTF-8");
    snprintf(command, sizeof command, "rm -r ./%s", folder);
    if (system(command) != 0) return -1;
    if (!used) {
        print_message("skipped: localedef cannot make de_DE.UTF-8 (Debian: locales)\n");
        exit(0);
    }
    return 0;
}

static void the_locale_has_a_comma(void **state)
{
    (void)state;
    char digits[32];
    snprintf(digits, sizeof digits, "%.1f", 0.5);
    assert_string_equal(digits, "0,5");
    assert_string_equal(localeconv()->decimal_point, ",");
}

static void every_default_is_accepted(void **state)
{
    (void)state;
    const int64_t shape[] = {3, 2};
    const psgd_tensor tensor = {.ndim = 2, .shape = shape};
    psgd_precond *precond;
    assert_ok(psgd_precond_create(NULL, "kron(tri,norm)", 2, shape, PSGD_F32, NULL, &precond));
    psgd_precond_free(precond);
    for (int i = 0; psgd_method_name(i); i++) {
        psgd_optimizer *optimizer;
        assert_ok(psgd_optimizer_create(NULL, psgd_method_name(i), 1, &tensor, PSGD_F32, NULL, &optimizer));
        psgd_optimizer_free(optimizer);
    }
}

static void numbers_are_read_and_written_with_a_point(void **state)
{
    (void)state;
    const int64_t n = 4;
    double number;
    psgd_options *options;
    psgd_precond *precond;
    text to = {0};
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "step", "0.25"));
    assert_ok(psgd_options_set_number(options, "init-scale", 1.5));
    assert_ok(psgd_precond_create(NULL, "lra(2)", 1, &n, PSGD_F64, options, &precond));
    psgd_precond_free(precond);
    assert_ok(psgd_options_set(options, "step", "0,25"));
    assert_fails(psgd_precond_create(NULL, "diag", 1, &n, PSGD_F64, options, &precond), PSGD_ERR_ARGUMENT, "'0,25'");
    assert_ok(psgd_options_set_number(options, "step", -0.5));
    assert_fails(psgd_precond_create(NULL, "diag", 1, &n, PSGD_F64, options, &precond), PSGD_ERR_ARGUMENT, "-0.5");
    psgd_options_free(options);

    assert_true(psgd__parse_number("1.5e-3", &number));
    assert_true(number == 1.5e-3);
    psgd__text_add(&to, "%g", 0.5);
    assert_string_equal(to.chars, "0.5");
    psgd__text_free(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_locale_has_a_comma),
        cmocka_unit_test(every_default_is_accepted),
        cmocka_unit_test(numbers_are_read_and_written_with_a_point),
    };
    return cmocka_run_group_tests(tests, use_comma, NULL);
}
