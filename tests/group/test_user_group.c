/* Groups of the caller's own: the example keeps all laws, tables that are a little wrong are caught by name. */
#include "support.h"

#include "../examples/own_group/toeplitz.c"

static psgd_context *context_with(const char *name, const psgd_user_group *f32, const psgd_user_group *f64)
{
    psgd_context *context;
    assert_ok(psgd_context_create(NULL, &context));
    assert_ok(psgd_context_add_group(context, name, f32, f64));
    return context;
}

static void toeplitz_keeps_all_laws_wherever_it_stands(void **state)
{
    (void)state;
    static const char *const specs[] = {"toeplitz", "t(toeplitz)", "sum(toeplitz:4,diag)",
                                        "block(toeplitz:3,t(toeplitz))", "t(block(diag:2,toeplitz))"};
    psgd_context *context = context_with("toeplitz", &toeplitz_table_f32, &toeplitz_table_f64);
    int broken;
    char *report;
    for (int dtype = 0; dtype < 2; dtype++) {
        for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
            assert_ok(psgd_group_check(context, specs[i], 1, (int64_t[]){9}, (psgd_dtype)dtype, 7, &broken, &report));
            if (broken) print_error("%s\n%s", specs[i], report);
            assert_int_equal(broken, 0);
            psgd_text_free(context, report);
        }
        assert_ok(psgd_group_check(context, "kron(toeplitz,tri,t(toeplitz))", 3, (int64_t[]){4, 3, 5},
                                   (psgd_dtype)dtype, 7, &broken, NULL));
        assert_int_equal(broken, 0);
    }
    psgd_context_free(context);
}

/* Q = [p s; 0 q] worked by hand: with n = 2, h = (2, 1), v = (1, 1), A = h, B = v, S = [3 1; 1 0], the means of the
 * diagonals are (3 + 0) / 2 and 1, hence R = 1.5 I + N. */
static void update_matches_hand_calculation(void **state)
{
    (void)state;
    psgd_context *context = context_with("toeplitz", NULL, &toeplitz_table_f64);
    psgd_options *options;
    psgd_precond *precond;
    double Q[4];
    assert_ok(psgd_options_create(context, &options));
    assert_ok(psgd_options_set(options, "norm", "max"));
    assert_ok(psgd_options_set(options, "step", "0.3"));
    assert_ok(psgd_precond_create(context, "toeplitz", 1, (int64_t[]){2}, PSGD_F64, options, &precond));
    assert_ok(psgd_precond_update(precond, (double[]){1, 1}, (double[]){2, 1}));
    assert_ok(psgd_precond_factor(precond, 0, Q));
    assert_float_equal(Q[0], 1 - 0.2 * 1.5, 1e-15);
    assert_float_equal(Q[1], -0.2, 1e-15);
    assert_float_equal(Q[2], 0, 0);
    assert_float_equal(Q[3], Q[0], 0);
    psgd_precond_free(precond);
    psgd_options_free(options);
    psgd_context_free(context);
}

/* Under t a lower triangle, fitted with the transpose of the R above: Q = I - 0.2 R'. */
static void a_transpose_is_the_transpose(void **state)
{
    (void)state;
    psgd_context *context = context_with("toeplitz", NULL, &toeplitz_table_f64);
    psgd_options *options;
    psgd_precond *precond;
    double Q[4];
    assert_ok(psgd_options_create(context, &options));
    assert_ok(psgd_options_set(options, "norm", "max"));
    assert_ok(psgd_options_set(options, "step", "0.3"));
    assert_ok(psgd_precond_create(context, "t(toeplitz)", 1, (int64_t[]){2}, PSGD_F64, options, &precond));
    assert_ok(psgd_precond_update(precond, (double[]){1, 1}, (double[]){2, 1}));
    assert_ok(psgd_precond_factor(precond, 0, Q));
    assert_float_equal(Q[0], 1 - 0.2 * 1.5, 1e-15);
    assert_float_equal(Q[1], 0, 0);
    assert_float_equal(Q[2], -0.2, 1e-15);
    assert_float_equal(Q[3], Q[0], 0);
    psgd_precond_free(precond);
    psgd_options_free(options);
    psgd_context_free(context);
}

/* Each of these is the right table but for one function. */
static void means_without_the_count(const psgd_element *self, psgd_fibres A, psgd_fibres B, int sign, int accumulate,
                                    void *R)
{
    toeplitz_project_f64(self, A, B, sign, accumulate, R);
    ((double *)R)[1] *= 0.999;
}

static void never_accumulates(const psgd_element *self, psgd_fibres A, psgd_fibres B, int sign, int accumulate, void *R)
{
    (void)accumulate;
    toeplitz_project_f64(self, A, B, sign, 0, R);
}

static void plus_for_minus(const psgd_element *self, psgd_fibres A, psgd_fibres B, int sign, int accumulate, void *R)
{
    (void)sign;
    toeplitz_project_f64(self, A, B, 1, accumulate, R);
}

static void cut_short(const psgd_element *self, double c, const void *R)
{
    toeplitz_retract_f64(self, c, R);
    ((double *)self->q)[self->n - 1] = 0;
}

static double half_the_largest(const psgd_element *self, const void *R)
{
    return 0.5 * toeplitz_r_max_f64(self, R);
}

static void first_fibre_only(const psgd_element *self, psgd_fibres X)
{
    X.outer = 1;
    toeplitz_mul_f64(self, X);
}

static int nothing_inside(const psgd_element *self, double c, const void *R)
{
    (void)self;
    (void)c;
    (void)R;
    return 0;
}

static void wrong_tables_are_caught_by_name(void **state)
{
    (void)state;
    struct {
        const char *law;
        psgd_user_group table;
    } wrong[] = {
        {"idempotent", toeplitz_table_f64}, {"accumulate", toeplitz_table_f64}, {"gradient", toeplitz_table_f64},
        {"retract", toeplitz_table_f64},    {"norms", toeplitz_table_f64},      {"fibres", toeplitz_table_f64},
        {"inside", toeplitz_table_f64},     {"transpose", toeplitz_table_f64},  {"pairing", toeplitz_table_f64},
    };
    wrong[0].table.project = means_without_the_count;
    wrong[1].table.project = never_accumulates;
    wrong[2].table.project = plus_for_minus;
    wrong[3].table.retract = cut_short;
    wrong[4].table.r_spectral = half_the_largest;
    wrong[5].table.mul = first_fibre_only;
    wrong[6].table.inside = nothing_inside;
    wrong[7].table.r_mul_t = toeplitz_r_mul_f64;
    wrong[8].table.solve_t = toeplitz_solve_f64;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psgd_context *context = context_with("wrong", NULL, &wrong[i].table);
        int broken;
        char *report, line[64];
        assert_ok(psgd_group_check(context, "wrong", 1, (int64_t[]){6}, PSGD_F64, 1, &broken, &report));
        snprintf(line, sizeof line, "BREAKS %-11s wrong:6", wrong[i].law);
        if (!strstr(report, line)) print_error("expected '%s' in\n%s", line, report);
        assert_non_null(strstr(report, line));
        assert_true(broken > 0);
        psgd_text_free(context, report);
        psgd_context_free(context);
    }
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    psgd_context *context = context_with("one", NULL, &toeplitz_table_f64), *other;
    psgd_precond *precond;
    int64_t n = 4;
    psgd_user_group table = toeplitz_table_f64;
    table.retract_right = NULL;
    assert_ok(psgd_context_add_group(context, "left", NULL, &table));
    assert_fails(psgd_precond_create(context, "t(left)", 1, &n, PSGD_F64, NULL, &precond), PSGD_ERR_UNSUPPORTED,
                 "no retract_right");
    assert_fails(psgd_precond_create(context, "one", 1, &n, PSGD_F32, NULL, &precond), PSGD_ERR_UNSUPPORTED,
                 "no table for f32");
    table.solve_t = NULL;
    assert_fails(psgd_context_add_group(context, "two", NULL, &table), PSGD_ERR_ARGUMENT, "solve_t is required");
    assert_fails(psgd_context_add_group(context, "tri", NULL, &toeplitz_table_f64), PSGD_ERR_ARGUMENT, "already");
    assert_fails(psgd_context_add_group(context, "one", NULL, &toeplitz_table_f64), PSGD_ERR_ARGUMENT, "already");
    assert_fails(psgd_context_add_group(context, "a b", NULL, &toeplitz_table_f64), PSGD_ERR_ARGUMENT, "lower case");
    assert_fails(psgd_context_add_group(NULL, "x", NULL, &toeplitz_table_f64), PSGD_ERR_ARGUMENT, "context");

    assert_ok(psgd_context_create(NULL, &other));
    assert_fails(psgd_precond_create(other, "one", 1, &n, PSGD_F64, NULL, &precond), PSGD_ERR_SPEC, "no group 'one'");
    psgd_context_free(other);
    psgd_context_free(context);
}

static void failed_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    counting c = {.fail_at = -1};
    psgd_allocator allocator = {counting_allocate, counting_release, &c};
    bool done = false;
    for (int64_t fail_at = 1; !done; fail_at++) {
        psgd_context *context;
        psgd_precond *precond = NULL;
        int broken;
        c = (counting){.fail_at = -1};
        assert_ok(psgd_context_create(&allocator, &context));
        c.fail_at = fail_at;
        psgd_status status = psgd_context_add_group(context, "own", &toeplitz_table_f32, &toeplitz_table_f64);
        if (status == PSGD_OK) {
            status = psgd_precond_create(context, "kron(own,tri)", 2, (int64_t[]){3, 3}, PSGD_F32, NULL, &precond);
        }
        if (status == PSGD_OK) {
            status = psgd_group_check(context, "own", 1, (int64_t[]){3}, PSGD_F32, 1, &broken, NULL);
        }
        assert_true(status == PSGD_OK || status == PSGD_ERR_NO_MEMORY);
        done = status == PSGD_OK;
        psgd_precond_free(precond);
        psgd_context_free(context);
        assert_int_equal(c.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toeplitz_keeps_all_laws_wherever_it_stands),
        cmocka_unit_test(update_matches_hand_calculation),
        cmocka_unit_test(a_transpose_is_the_transpose),
        cmocka_unit_test(wrong_tables_are_caught_by_name),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(failed_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
