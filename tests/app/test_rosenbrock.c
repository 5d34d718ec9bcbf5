/* The paper's figure 1: where the formulas put the deterministic methods, and what the Newton type reaches. */
#include "support.h"
#include "paper/rosenbrock.h"

static rosenbrock_runs runs;

static double median(int method, int iteration)
{
    double quartiles[3];
    psgd__rosenbrock_quartiles((const rosenbrock_runs *)&runs, method, iteration, quartiles);
    return quartiles[1];
}

static void medians_are_where_the_formulas_put_them(void **state)
{
    (void)state;
    assert_ok(psgd__rosenbrock_run_all(&runs));
    assert_float_equal(median(0, 200), 2.5, 0.05);
    assert_float_equal(median(1, 200), 4.8e-3, 5e-5);
    assert_float_equal(median(2, 200), 6.6e-2, 5e-4);
    assert_float_equal(median(3, 200), 4, 0.2);
    assert_true(median(4, 200) < 1e-6);
    assert_true(median(4, 300) < 1e-20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(medians_are_where_the_formulas_put_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
