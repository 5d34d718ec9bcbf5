/* The line search on functions of one variable: where it ends, and what it makes of values that are not finite. */
#include "support.h"

#include "optim/search.h"

/* phi(a) = (a - 3)^2 / 2, and beyond `edge` what these say. */
typedef struct valley {
    double edge, value, slope;
} valley;

static psgd_status evaluate(void *data, double a, double *value, double *slope)
{
    const valley *self = data;
    bool beyond = a > self->edge;
    *value = beyond ? self->value : (a - 3) * (a - 3) / 2;
    *slope = beyond ? self->slope : a - 3;
    return PSGD_OK;
}

static line_search search_from_zero(double first)
{
    return (line_search){
        .value = 4.5, .slope = -3, .first = first, .decrease = 1e-4, .curvature = 0.1, .longest = 1e10, .max = 60};
}

/* Both Wolfe conditions, from the formula. */
static void assert_wolfe(const line_search *s)
{
    double a = s->length, value = (a - 3) * (a - 3) / 2;
    assert_true(s->found);
    assert_true(a > 0 && s->reached == value);
    assert_true(value <= s->value + s->decrease * a * s->slope);
    assert_true(fabs(a - 3) <= -s->curvature * s->slope);
}

static void both_conditions_hold(void **state)
{
    (void)state;
    for (double first = 1e-6; first < 1e6; first *= 7) {
        valley whole = {.edge = HUGE_VAL};
        line_search s = search_from_zero(first);
        assert_ok(psgd__line_search(&s, evaluate, &whole));
        assert_wolfe(&s);
    }
}

/* Too far, whichever of the two is not finite, and however low or flat the other says it is. */
static void what_is_not_finite_is_too_far(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY}, good[] = {-100, 0, 1};
    for (int k = 0; k < 3; k++) {
        for (int j = 0; j < 3; j++) {
            for (int which = 0; which < 3; which++) {
                for (double first = 1e-3; first < 1e5; first *= 5) {
                    valley cut = {.edge = 3.2,
                                  .value = which == 1 ? good[j] : bad[k],
                                  .slope = which == 0 ? good[j] : bad[(k + j) % 3]};
                    line_search s = search_from_zero(first);
                    assert_ok(psgd__line_search(&s, evaluate, &cut));
                    assert_wolfe(&s);
                }
            }
        }
    }
}

/* Not finite everywhere: nothing is found. */
static void a_cliff_at_the_start_ends_the_search(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 3; k++) {
        valley cliff = {.edge = 0, .value = bad[k], .slope = -1};
        line_search s = search_from_zero(1);
        assert_ok(psgd__line_search(&s, evaluate, &cliff));
        assert_false(s.found);
        assert_true(s.evaluations <= s.max);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_conditions_hold),
        cmocka_unit_test(what_is_not_finite_is_too_far),
        cmocka_unit_test(a_cliff_at_the_start_ends_the_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
