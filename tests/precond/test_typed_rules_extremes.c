/* Every update rule for long and on extreme pairs: Q stays finite and can be inverted. */
#include "specs.h"
#include "support.h"

#include "core/dtype.h"

#include <float.h>
#include <stdlib.h>

enum { RULES = 4 };

/* A share of the updates, unless PSGD_LONG_TESTS asks for all of them, as make test-all does. */
static int some_of(int updates)
{
#ifdef __SANITIZE_ADDRESS__
    return updates / 20;
#else
    return getenv("PSGD_LONG_TESTS") ? updates : updates / 8;
#endif
}

static const char *const rules[RULES] = {"qeq", "pro", "quad", "qep"};

static const instance groups[] = {
    {"diag", "diag", 1, {4}},
    {"dense", "dense", 1, {4}},
    {"xmat", "xmat", 1, {5}},
    {"scale", "scale", 1, {4}},
    {"dense", "kron(dense,dense)", 2, {4, 5}},
    {"kron", "kron(diag,dense)", 2, {4, 5}},
    {"kron", "kron(dense,xmat,scale)", 3, {3, 2, 4}},
    {"sum", "sum(diag:2,kron(dense:2,dense:3),identity:2)", 1, {10}},
};
enum { GROUPS = (int)(sizeof groups / sizeof groups[0]) };

typedef struct subject {
    const instance *g;
    const char *rule;
    int64_t n;
    psgd_precond *precond;
    real *v, *h;
    uint64_t seed;
} subject;

static subject start(const instance *g, const char *rule, double step)
{
    psgd_options *options;
    subject s = {.g = g, .rule = rule, .seed = 23};
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "rule", rule));
    assert_ok(psgd_options_set_number(options, "step", step));
    assert_ok(psgd_precond_create(NULL, g->spec, g->ndim, g->shape, REAL_DTYPE, options, &s.precond));
    psgd_options_free(options);
    s.n = psgd_precond_size(s.precond);
    s.v = calloc((size_t)s.n, sizeof(real));
    s.h = calloc((size_t)s.n, sizeof(real));
    return s;
}

static void stop(subject *s)
{
    psgd_precond_free(s->precond);
    free(s->v);
    free(s->h);
}

static void draw(subject *s, double v_scale, double h_scale)
{
    for (int64_t i = 0; i < s->n; i++) {
        s->v[i] = (real)(v_scale * random_normal(&s->seed));
        s->h[i] = (real)(h_scale * (1 + (double)(i % 3)) * random_normal(&s->seed));
    }
}

/* Q and its inverse are finite, and they are inverses. */
static void assert_invertible(const subject *s, double tolerance, const char *when)
{
    real *x = calloc((size_t)s->n, sizeof(real));
    double off = 0;
    for (int64_t i = 0; i < s->n; i++) x[i] = 1;
    assert_ok(psgd_precond_apply(s->precond, PSGD_APPLY_Q, x, x));
    for (int64_t i = 0; i < s->n; i++) off = isfinite((double)x[i]) ? off : NAN;
    if (tolerance == HUGE_VAL && off == 0) { /* finite is all that is asked for */
        free(x);
        return;
    }
    assert_ok(psgd_precond_apply(s->precond, PSGD_APPLY_Q_INVERSE, x, x));
    for (int64_t i = 0; i < s->n; i++) {
        double here = fabs((double)x[i] - 1);
        if (!(here <= off)) off = here; /* also where it is not a number */
    }
    free(x);
    if (off <= tolerance) return;
    double condition = NAN;
    (void)psgd_precond_condition(s->precond, &condition);
    fail_msg("%s with rule %s: Q^-1 Q 1 is off by %g after %s; condition %g, %lld updates skipped", s->g->spec, s->rule,
             off, when, condition, (long long)psgd_precond_skipped(s->precond));
}

static void q_stays_invertible_over_many_updates(void **state)
{
    (void)state;
    for (int i = 0; i < 5 * RULES; i++) {
        subject s = start(&groups[i / RULES], rules[i % RULES], 0.1);
        for (int u = 0; u < some_of(100000); u++) {
            draw(&s, 1, 1);
            assert_ok(psgd_precond_update(s.precond, s.v, s.h));
        }
        assert_int_equal(psgd_precond_skipped(s.precond), 0);
        assert_invertible(&s, 1e4 * REAL_EPSILON, "many updates");
        stop(&s);
    }
}

typedef struct storm {
    const char *name;
    double v, h;
    int updates;
    bool same; /* the same pair every time */
} storm;

static void q_outlives_extreme_pairs(void **state)
{
    (void)state;
    static const storm storms[] = {{"h = 0", 1, 0, 4000, true},
                                   {"v = 0", 0, 1, 4000, true},
                                   {"h = 0, random v", 1, 0, 4000, false},
                                   {"v = 0, random h", 0, 1, 4000, false},
                                   {"one pair", 1, 1, 4000, true},
                                   {"v 1e-30, h 1e30", 1e-30, 1e30, 3000, true},
                                   {"v 1e30, h 1e-30", 1e30, 1e-30, 3000, true},
                                   {"v 1e-30, h 1e30, random", 1e-30, 1e30, 3000, false},
                                   {"v 1e30, h 1e-30, random", 1e30, 1e-30, 3000, false},
                                   {"both 1e30", 1e30, 1e30, 200, false},
                                   {"both 1e-30", 1e-30, 1e-30, 200, false}};
    for (size_t w = 0; w < sizeof storms / sizeof storms[0]; w++) {
        for (int i = 0; i < GROUPS * RULES; i++) {
            subject s = start(&groups[i / RULES], rules[i % RULES], 0.1);
            draw(&s, storms[w].v, storms[w].h);
            for (int u = 0; u < some_of(storms[w].updates); u++) {
                if (!storms[w].same) draw(&s, storms[w].v, storms[w].h);
                assert_ok(psgd_precond_update(s.precond, s.v, s.h));
            }
            /* One direction of P 10^60 times the others is more than a matrix can hold; with qep the large ones grow
             * faster than the others on a way as long as that. */
            bool far = storms[w].v * storms[w].h != 0 && fabs(log10(storms[w].v / storms[w].h)) > 50;
            bool hopeless = far && (storms[w].same || !strcmp(s.rule, "qep"));
            assert_invertible(&s, hopeless ? HUGE_VAL : 0.1, storms[w].name);
            for (int u = 0; u < 100; u++) {
                draw(&s, 1, 1);
                assert_ok(psgd_precond_update(s.precond, s.v, s.h));
            }
            assert_invertible(&s, hopeless ? HUGE_VAL : 0.1, "the storm");
            stop(&s);
        }
    }
}

/* Any step below 1 keeps I - cR invertible, or is skipped. */
static void large_steps_do_no_harm(void **state)
{
    (void)state;
    static const double steps[] = {0.3, 0.6, 0.99};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < GROUPS * RULES; i++) {
            subject s = start(&groups[i / RULES], rules[i % RULES], steps[k]);
            for (int u = 0; u < some_of(2000); u++) {
                draw(&s, 1, 1);
                assert_ok(psgd_precond_update(s.precond, s.v, s.h));
            }
            assert_invertible(&s, 0.1, "large steps");
            stop(&s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q_stays_invertible_over_many_updates),
        cmocka_unit_test(q_outlives_extreme_pairs),
        cmocka_unit_test(large_steps_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
