/* The planner: budgets are kept, what is chosen is the richest that fits, and nothing is huge by accident. */
#include "support.h"

#include "core/text.h"

enum { MAX = 8 };

static psgd_plan *plan_for(int count, const int *ndim, int64_t shape[][4], const char *option, const char *value)
{
    psgd_options *options;
    psgd_plan *plan;
    const int64_t *each[MAX];
    for (int i = 0; i < count; i++) each[i] = shape[i];
    assert_ok(psgd_options_create(NULL, &options));
    if (option) assert_ok(psgd_options_set(options, option, value));
    assert_ok(psgd_plan_create(NULL, count, ndim, each, PSGD_F32, options, &plan));
    psgd_options_free(options);
    return plan;
}

static void budgets_are_kept_and_used(void **state)
{
    (void)state;
    int64_t shapes[][4] = {{96, 364}, {256, 2401}, {64, 3, 7, 7}, {10}, {4096}};
    int ndim[] = {2, 2, 4, 1, 1};
    double parameters = 96 * 364 + 256 * 2401 + 64 * 3 * 49 + 10 + 4096;
    const char *budgets[] = {"0.01", "0.5", "1.5", "10", "1000"};
    int64_t before = 0;
    for (int b = 0; b < 5; b++) {
        psgd_plan *plan = plan_for(5, ndim, shapes, "budget", budgets[b]);
        int64_t total = psgd_plan_total_bytes(plan);
        assert_true((double)total <=
                    psgd__to_number(budgets[b], NULL) * parameters * 4 + 4 * 5); /* scale alone takes a number each */
        assert_true(total >= before);
        before = total;
        for (int t = 0; t < 5; t++) {
            const char *next = psgd_plan_next_spec(plan, t);
            int64_t bytes;
            assert_ok(psgd_group_cost(NULL, psgd_plan_spec(plan, t), ndim[t], shapes[t], PSGD_F32, NULL, &bytes, NULL,
                                      NULL, NULL, NULL));
            assert_int_equal(bytes, psgd_plan_bytes(plan, t));
            if (!next) continue;
            /* One step further would not have fitted. */
            double more = (double)(total - bytes + psgd_plan_next_bytes(plan, t));
            assert_true(more > psgd__to_number(budgets[b], NULL) * parameters * 4);
        }
        psgd_plan_free(plan);
    }
}

static void every_kind_of_tensor_gets_a_sensible_group(void **state)
{
    (void)state;
    struct {
        int ndim;
        int64_t shape[4];
        const char *spec;
    } all[] = {
        {2, {96, 364}, "kron(tri,norm)"},               /* 96 fibres are few for a triangle of 364 */
        {2, {100, 785}, "kron(tri,norm)"},              /* the triangle of 785 is 7.8 times the matrix, too */
        {2, {512, 512}, "kron(tri,tri)"},               /* two squares of 512 are 2 times the matrix */
        {2, {50257, 768}, "kron(diag,tri)"},            /* an embedding: nothing as large as the words squared */
        {4, {256, 128, 3, 3}, "kron(tri,tri,tri,tri)"}, /* a convolution: each mode its triangle, cheap */
        {4, {512, 512, 1, 1}, "kron(tri,tri,identity,identity)"},
        {1, {4096}, "diag"}, /* a bias */
        {1, {1}, "tri"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        psgd_plan *plan = plan_for(1, &all[i].ndim, &all[i].shape, NULL, NULL);
        psgd_precond *precond;
        assert_string_equal(psgd_plan_spec(plan, 0), all[i].spec);
        psgd_plan_free(plan);
        if (all[i].shape[0] > 1000) continue;
        assert_ok(psgd_precond_create(NULL, " auto ", all[i].ndim, all[i].shape, PSGD_F32, NULL, &precond));
        int64_t widest = 0;
        for (int f = 0; f < psgd_precond_factor_count(precond); f++) {
            widest = psgd_precond_factor_size(precond, f) > widest ? psgd_precond_factor_size(precond, f) : widest;
        }
        assert_true(widest <= 785);
        psgd_precond_free(precond);
    }
}

static void triangles_on_outputs_depend_on_the_criterion(void **state)
{
    (void)state;
    enum { SHAPES = 6 };
    static const char *const criteria[] = {"newton", "fisher"};
    static const char *const specs[][SHAPES] = {
        {"kron(tri,tri)", "kron(tri,norm)", "kron(tri,tri)", "kron(tri,norm)", "kron(tri,norm)", "kron(tri,tri)"},
        {"kron(diag,tri)", "kron(tri,norm)", "kron(tri,tri)", "kron(tri,norm)", "kron(diag,norm)", "kron(tri,tri)"}};
    int64_t shapes[SHAPES][4] = {{384, 128}, {128, 384}, {300, 299}, {128, 784}, {129, 784}, {256, 256}};
    int ndim[SHAPES] = {2, 2, 2, 2, 2, 2};
    for (int c = 0; c < 2; c++) {
        psgd_plan *plan = plan_for(SHAPES, ndim, shapes, "criterion", criteria[c]);
        for (int t = 0; t < SHAPES; t++) assert_string_equal(psgd_plan_spec(plan, t), specs[c][t]);
        psgd_plan_free(plan);
    }
}

static void a_huge_budget_makes_no_huge_triangle(void **state)
{
    (void)state;
    int64_t shapes[][4] = {{64, 64, 3, 3}, {20000}, {20000, 30}};
    int ndim[] = {4, 1, 2};
    psgd_plan *plan = plan_for(3, ndim, shapes, "budget", "1e9");
    assert_string_equal(psgd_plan_spec(plan, 0), "kron(tri,tri,tri,tri)");
    assert_string_equal(psgd_plan_spec(plan, 1), "diag");
    assert_string_equal(psgd_plan_spec(plan, 2), "kron(diag,tri)");
    psgd_plan_free(plan);
}

static void time_is_a_budget_too(void **state)
{
    (void)state;
    int64_t shapes[][4] = {{4096, 4097}};
    int ndim[] = {2};
    psgd_options *options;
    psgd_plan *plan;
    const int64_t *each[] = {shapes[0]};
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "time", "0.5"));
    assert_fails(psgd_plan_create(NULL, 1, ndim, each, PSGD_F32, options, &plan), PSGD_ERR_ARGUMENT, "gradient-flops");
    assert_ok(psgd_options_set(options, "gradient-flops", "1e9"));
    assert_ok(psgd_plan_create(NULL, 1, ndim, each, PSGD_F32, options, &plan));
    assert_true(psgd_plan_total_flops(plan) <= 0.5e9);
    assert_non_null(psgd_plan_next_spec(plan, 0));
    assert_true(psgd_plan_next_flops(plan, 0) > 0.5e9);
    psgd_plan_free(plan);
    psgd_options_free(options);
}

static void auto_stands_alone(void **state)
{
    (void)state;
    psgd_precond *precond;
    assert_fails(psgd_precond_create(NULL, "kron(auto,tri)", 2, (int64_t[]){2, 2}, PSGD_F32, NULL, &precond),
                 PSGD_ERR_SPEC, "auto stands alone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_are_kept_and_used),
        cmocka_unit_test(every_kind_of_tensor_gets_a_sensible_group),
        cmocka_unit_test(triangles_on_outputs_depend_on_the_criterion),
        cmocka_unit_test(a_huge_budget_makes_no_huge_triangle),
        cmocka_unit_test(time_is_a_budget_too),
        cmocka_unit_test(auto_stands_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
