/* Zeros, extreme scales and numbers that are none: ordinary inputs all of them, and Q outlives them. */
#include "specs.h"
#include "support.h"

#include "core/dtype.h"
#include "la/la.h"

#include <float.h>

static const double EPSILON = REAL_EPSILON;
static const char *const norms[] = {"auto", "max", "spectral", "second", "none"};

typedef struct subject {
    const instance *g;
    const char *norm;
    int64_t n;
    psgd_precond *precond;
    real *v, *h;
    uint64_t seed;
} subject;

static psgd_precond *make(const instance *g, const char *norm, double step)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set_number(options, "step", step));
    assert_ok(psgd_precond_create(NULL, g->spec, g->ndim, g->shape, REAL_DTYPE, options, &precond));
    psgd_options_free(options);
    return precond;
}

static void start(subject *s, const instance *g, const char *norm, double step, uint64_t seed)
{
    *s = (subject){.g = g, .norm = norm, .seed = seed, .precond = make(g, norm, step)};
    s->n = psgd_precond_size(s->precond);
    s->v = calloc((size_t)s->n, sizeof(real));
    s->h = calloc((size_t)s->n, sizeof(real));
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
        s->h[i] = (real)(h_scale * random_normal(&s->seed));
    }
}

/* All factors of Q, one after the other. */
static real *whole_state(const psgd_precond *precond, int64_t *count)
{
    int factors = psgd_precond_factor_count(precond);
    *count = 0;
    for (int i = 0; i < factors; i++) {
        *count += psgd_precond_factor_size(precond, i) * psgd_precond_factor_size(precond, i);
    }
    real *Q = calloc((size_t)*count, sizeof(real)), *at = Q;
    for (int i = 0; i < factors; i++) {
        assert_ok(psgd_precond_factor(precond, i, at));
        at += psgd_precond_factor_size(precond, i) * psgd_precond_factor_size(precond, i);
    }
    return Q;
}

static void assert_finite(const subject *s, const char *when)
{
    int64_t count;
    real *Q = whole_state(s->precond, &count), *x = calloc((size_t)s->n, sizeof(real));
    bool finite = true;
    for (int64_t i = 0; i < count; i++) finite = finite && isfinite((double)Q[i]);
    for (int what = PSGD_APPLY_Q; what <= PSGD_APPLY_QT_INVERSE; what++) {
        if (what == PSGD_APPLY_P_INVERSE || what == PSGD_APPLY_P2_INVERSE) continue;
        for (int64_t i = 0; i < s->n; i++) x[i] = 1;
        assert_ok(psgd_precond_apply(s->precond, (psgd_operator)what, x, x));
        for (int64_t i = 0; i < s->n; i++) finite = finite && isfinite((double)x[i]);
    }
    if (!finite) print_error("%s with %s: Q is not finite after %s\n", s->g->spec, s->norm, when);
    assert_true(finite);
    free(Q);
    free(x);
}

static void assert_same_bits(const subject *s, const psgd_precond *other, const char *when)
{
    int64_t count, other_count;
    real *Q = whole_state(s->precond, &count), *O = whole_state(other, &other_count);
    assert_int_equal(count, other_count);
    if (memcmp(Q, O, (size_t)count * sizeof(real))) {
        print_error("%s with %s: Q changed after %s\n", s->g->spec, s->norm, when);
        fail();
    }
    free(Q);
    free(O);
}

static void assert_close(const subject *s, const psgd_precond *other, double tolerance, const char *when)
{
    int64_t count, other_count;
    real *Q = whole_state(s->precond, &count), *O = whole_state(other, &other_count);
    double off = 0, max = 0;
    for (int64_t i = 0; i < count; i++) {
        off = fmax(off, fabs((double)Q[i] - (double)O[i]));
        max = fmax(max, fabs((double)O[i]));
    }
    if (!(off <= tolerance * max)) {
        print_error("%s with %s: Q is off by %g of %g after %s\n", s->g->spec, s->norm, off, max, when);
        fail();
    }
    free(Q);
    free(O);
}

static void zero_pairs_leave_q_as_it_is(void **state)
{
    (void)state;
    subject s;
    for (int i = 0; i < 5 * instance_count; i++) {
        start(&s, &instances[i / 5], norms[i % 5], i % 5 == 4 ? 1e-3 : 0.5, 3);
        psgd_precond *twin = make(s.g, s.norm, i % 5 == 4 ? 1e-3 : 0.5);
        draw(&s, 1, 1);
        assert_ok(psgd_precond_update(s.precond, s.v, s.h));
        assert_ok(psgd_precond_update(twin, s.v, s.h));
        draw(&s, 0, 0);
        for (int k = 0; k < 3; k++) assert_ok(psgd_precond_update(s.precond, s.v, s.h));
        assert_same_bits(&s, twin, "zero pairs");
        psgd_precond_free(twin);
        stop(&s);
    }
}

/* v and h times the same power of two: R has the factor's square, which every normaliser but none takes out. The
 * running maximum of second is a number of its own, which ends where double does. */
static void a_common_scale_changes_nothing(void **state)
{
    (void)state;
    static const int exponents[] = {-120, -100, -60, -30, 30, 60, 100, 120, -450, 450, -900, -530, 530, 900};
    const bool wide = sizeof(real) == 8;
    subject s;
    for (int i = 0; i < 3 * instance_count; i++) {
        bool running = !strcmp(norms[1 + i % 3], "second");
        for (int e = 0; e < (!wide ? 8 : running ? 10 : 14); e++) {
            start(&s, &instances[i / 3], norms[1 + i % 3], 0.3, 17);
            psgd_precond *twin = make(s.g, s.norm, 0.3);
            for (int k = 0; k < 4; k++) {
                draw(&s, 1, 1);
                assert_ok(psgd_precond_update(twin, s.v, s.h));
                for (int64_t j = 0; j < s.n; j++) s.v[j] = (real)ldexp((double)s.v[j], exponents[e]);
                for (int64_t j = 0; j < s.n; j++) s.h[j] = (real)ldexp((double)s.h[j], exponents[e]);
                assert_ok(psgd_precond_update(s.precond, s.v, s.h));
            }
            assert_close(&s, twin, 1e3 * EPSILON, "scaling both");
            psgd_precond_free(twin);
            stop(&s);
        }
    }
}

/* Squares of h that are no numbers of the type, beside ordinary v: no part of an update is left out for that. */
static void huge_curvature_is_followed(void **state)
{
    (void)state;
    const double huge = sizeof(real) == 8 ? 1e160 : 1e25;
    subject s;
    for (int i = 0; i < 3 * instance_count; i++) {
        start(&s, &instances[i / 3], norms[1 + i % 3], 0.1, 11);
        psgd_precond *fresh = make(s.g, s.norm, 0.1);
        for (int k = 0; k < 4; k++) {
            draw(&s, 1, huge);
            assert_ok(psgd_precond_update(s.precond, s.v, s.h));
        }
        if (psgd_precond_skipped(s.precond)) fail_msg("%s with %s: updates left out", s.g->spec, s.norm);
        assert_finite(&s, "huge curvature");
        int64_t count;
        real *Q = whole_state(s.precond, &count), *first = whole_state(fresh, &count);
        bool moves = memcmp(Q, first, (size_t)count * sizeof(real)) || !strcmp(s.g->spec, "identity");
        if (!moves) fail_msg("%s with %s: Q stays", s.g->spec, s.norm);
        free(Q);
        free(first);
        psgd_precond_free(fresh);
        stop(&s);
    }
}

/* 3, 4 and 12 times a power of two, with a gap between them that does not count: 13 times that power. */
static void norms_do_not_overflow(void **state)
{
    (void)state;
    const int max = (sizeof(real) == 8 ? DBL_MAX_EXP : FLT_MAX_EXP) - 4;
    for (int e = -max; e <= max; e++) {
        real c = (real)ldexp(1, e), x[] = {3 * c, 4 * c, 1, 12 * c, 0, 1};
        view X = view_slice(view_rows(x, 3, 2), 0, 2);
        assert_float_equal(la_view_norm(X, e), 13, 16 * EPSILON);
        assert_float_equal(la_view_norm(X, e - 40), ldexp(13, 40), ldexp(16 * EPSILON, 40));
    }
    real zero[] = {0, 0};
    assert_true(la_view_norm(view_rows(zero, 2, 1), 900) == 0);
}

/* The parts of a sum are normalised by themselves, so one that is 1e-30 beside the other moves just as much. */
static void a_small_part_of_a_sum_moves_as_a_large_one(void **state)
{
    (void)state;
    static const instance parts[] = {{"sum", "sum(diag:3,tri:3)", 1, {6}},
                                     {"sum", "sum(dense:3,kron(norm:3,tri:1))", 1, {6}},
                                     {"sum", "kron(sum(norm:3,xmat:3),scale)", 2, {6, 1}}};
    subject s;
    for (int i = 0; i < 9; i++) {
        start(&s, &parts[i / 3], norms[1 + i % 3], 0.3, 5);
        psgd_precond *twin = make(s.g, s.norm, 0.3);
        for (int k = 0; k < 4; k++) {
            draw(&s, 1, 1);
            assert_ok(psgd_precond_update(twin, s.v, s.h));
            for (int j = 3; j < 6; j++) {
                s.v[j] = (real)ldexp((double)s.v[j], -100);
                s.h[j] = (real)ldexp((double)s.h[j], -100);
            }
            assert_ok(psgd_precond_update(s.precond, s.v, s.h));
        }
        /* A kron at the root with other factors would see the change of size; here the other has one entry. */
        if (i < 6) assert_close(&s, twin, 1e3 * EPSILON, "scaling one part");
        assert_finite(&s, "scaling one part");
        stop(&s);
        psgd_precond_free(twin);
    }
}

typedef struct storm {
    const char *name;
    double v, h;
    int updates;
} storm;

/* Parts 10^22 apart: the family sees values whose squares underflow next to those of the other part. */
static void a_family_in_a_sum_sees_small_values(void **state)
{
    (void)state;
    static const instance sums[] = {{"sum", "sum(lra(1):3,diag:2)", 1, {5}},
                                    {"sum", "sum(splu(1):3,diag:2)", 1, {5}},
                                    {"sum", "sum(lra(2):3,splu(1):2)", 1, {5}}};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 5; k++) {
            subject s;
            start(&s, &sums[i], norms[k], 0.01, 1);
            for (int64_t j = 0; j < s.n; j++) {
                s.v[j] = 1;
                s.h[j] = j < 3 ? (real)(j + 1) : (real)1e22;
            }
            for (int t = 0; t < 200; t++) assert_ok(psgd_precond_update(s.precond, s.v, s.h));
            assert_finite(&s, "parts far apart");
            assert_true(psgd_precond_skipped(s.precond) < 20 || k == 4); /* none: too long a step for the large part */
            stop(&s);
        }
    }
}

/* Whatever comes, updates report success, Q stays finite, and ordinary pairs find a Q that works. */
static void q_outlives_extreme_pairs(void **state)
{
    (void)state;
    static const storm storms[] = {{"h = 0", 1, 0, 20000},
                                   {"v = 0", 0, 1, 20000},
                                   {"v 1e-30, h 1e30", 1e-30, 1e30, 3000},
                                   {"v 1e30, h 1e-30", 1e30, 1e-30, 3000},
                                   {"both 1e30", 1e30, 1e30, 200},
                                   {"both 1e-30", 1e-30, 1e-30, 200}};
    static const char *const specs[] = {"diag",
                                        "tri",
                                        "tril",
                                        "dense",
                                        "norm",
                                        "bnorm",
                                        "xmat",
                                        "scale",
                                        "block(tri:3,identity:1)",
                                        "sum(diag:2,kron(tri:1,tri:2))"};
    subject s;
    for (int w = 0; w < 6; w++) {
        for (int i = 0; i < 10 + instance_count; i++) {
            instance plain = {.spec = i < 10 ? specs[i] : NULL, .ndim = 1, .shape = {4}};
            const instance *g = i < 10 ? &plain : &instances[i - 10];
            for (int k = 0; k < (i < 10 ? 5 : 1); k++) {
                if (i >= 10 && g->ndim < 2) continue;
                start(&s, g, norms[k], k == 4 ? 0.01 : 0.1, 23);
                draw(&s, storms[w].v, storms[w].h);
                int updates = i < 10 && k == 0 ? storms[w].updates : storms[w].updates / 10;
                for (int u = 0; u < updates; u++) assert_ok(psgd_precond_update(s.precond, s.v, s.h));
                assert_finite(&s, storms[w].name);
                for (int u = 0; u < 50; u++) {
                    draw(&s, 1, 1);
                    assert_ok(psgd_precond_update(s.precond, s.v, s.h));
                }
                assert_finite(&s, "the storm");
                stop(&s);
            }
        }
    }
}

/* Pairs that ask for a Q near the limits of the number type do not get it: it stays within 2^60 and 2^-60, of doubles
 * 2^400 and 2^-400, and a step beyond. */
static void q_is_scaled_back_near_the_limit(void **state)
{
    (void)state;
    const int limit = sizeof(real) == 4 ? 60 : 400;
    const int decades = sizeof(real) == 4 ? 25 : 140, each = 60; /* Q follows at its own pace */
    static const char *const specs[] = {"diag", "tri", "dense", "scale"};
    subject s;
    for (int growing = 0; growing < 2; growing++) {
        for (int i = 0; i < 4; i++) {
            instance g = {.spec = specs[i], .ndim = 1, .shape = {4}};
            real Q[16], min = REAL_MAX, max = 0;
            start(&s, &g, "max", 0.3, 5);
            for (int t = 0; t < decades * each; t++) {
                double large = pow(10, 1 + t / each);
                draw(&s, growing ? large : 1 / large, growing ? 1 / large : large);
                assert_ok(psgd_precond_update(s.precond, s.v, s.h));
                if (t % 50) continue;
                assert_ok(psgd_precond_factor(s.precond, 0, Q));
                real largest = 0;
                for (int k = 0; k < 16; k++) largest = (real)fmax((double)largest, fabs((double)Q[k]));
                min = largest < min ? largest : min;
                max = largest > max ? largest : max;
            }
            if (!((double)max <= ldexp(4, limit) && (double)min >= ldexp(0.25, -limit))) {
                fail_msg("%s: Q was between %g and %g", specs[i], (double)min, (double)max);
            }
            if (growing ? (double)max < ldexp(0.1, limit) : (double)min > ldexp(10, -limit)) {
                fail_msg("%s: Q, between %g and %g, never came near", specs[i], (double)min, (double)max);
            }
            stop(&s);
        }
    }
}

/* A refused pair leaves nothing behind, also not in running maxima and averages: the next update is that of a twin
 * which never saw it. */
static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    const real bad[] = {(real)NAN, (real)INFINITY, -(real)INFINITY};
    subject s;
    for (int i = 0; i < instance_count * 5; i++) {
        start(&s, &instances[i / 5], norms[i % 5], i % 5 == 4 ? 1e-3 : 0.5, 41);
        psgd_precond *twin = make(s.g, s.norm, i % 5 == 4 ? 1e-3 : 0.5);
        for (int k = 0; k < 3; k++) {
            draw(&s, 1, 1);
            assert_ok(psgd_precond_update(s.precond, s.v, s.h));
            assert_ok(psgd_precond_update(twin, s.v, s.h));
            int64_t at = random_below(&s.seed, s.n);
            real *x = random_below(&s.seed, 2) ? s.v : s.h;
            x[at] = bad[k];
            int64_t before = psgd_precond_updates(s.precond);
            char words[64];
            snprintf(words, sizeof words, "%s is %s at entry %lld", x == s.v ? "v" : "h",
                     k ? "infinite" : "not a number", (long long)at);
            assert_fails(psgd_precond_update(s.precond, s.v, s.h), PSGD_ERR_NOT_FINITE, words);
            assert_int_equal(psgd_precond_updates(s.precond), before);
            assert_same_bits(&s, twin, "a refused pair");
        }
        psgd_precond_free(twin);
        stop(&s);
    }
}

static void a_refused_gradient_leaves_the_average_alone(void **state)
{
    (void)state;
    psgd_options *options;
    psgd_precond *pair[2];
    int64_t n = 3;
    const real v[] = {1, -1, 2}, g[] = {1, 2, 3}, bad[] = {1, (real)NAN, 3}, next[] = {-1, 0, 1};
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "criterion", "fisher"));
    assert_ok(psgd_options_set(options, "unbiased", "yes"));
    assert_ok(psgd_options_set(options, "batch", "16"));
    for (int i = 0; i < 2; i++) {
        real Q[9];
        assert_ok(psgd_precond_create(NULL, "tri", 1, &n, REAL_DTYPE, options, &pair[i]));
        assert_ok(psgd_precond_update(pair[i], v, g));
        if (i) assert_int_equal(psgd_precond_update(pair[i], v, bad), PSGD_ERR_NOT_FINITE);
        assert_ok(psgd_precond_update(pair[i], v, next));
        assert_ok(psgd_precond_factor(pair[i], 0, Q));
        real other[9];
        assert_ok(psgd_precond_factor(pair[0], 0, other));
        assert_memory_equal(Q, other, sizeof Q);
    }
    psgd_precond_free(pair[0]);
    psgd_precond_free(pair[1]);
    psgd_options_free(options);
}

/* v and h that share no entry ask for a P without bounds: a family stops once both images have vanished in rounding, as
 * the other groups do, where P spans about 1/EPSILON^2. */
static void a_family_stops_where_both_images_vanish(void **state)
{
    (void)state;
    static const instance families[] = {{"splu", "splu(2)", 1, {8}}, {"sum", "sum(lra(1):4,diag:4)", 1, {8}}};
    for (int i = 0; i < 2; i++) {
        subject s;
        double smallest = HUGE_VAL, largest = 0;
        start(&s, &families[i], "auto", 0.1, 3);
        for (int t = 0; t < 1000; t++) {
            draw(&s, 1, 1);
            for (int j = 0; j < 4; j++) s.v[j] = s.h[4 + j] = 0;
            assert_ok(psgd_precond_update(s.precond, s.v, s.h));
        }
        for (int j = 0; j < 8; j++) {
            real x[8] = {0};
            x[j] = 1;
            assert_ok(psgd_precond_apply(s.precond, PSGD_APPLY_P, x, x));
            smallest = fmin(smallest, (double)x[j]);
            largest = fmax(largest, (double)x[j]);
        }
        assert_true(psgd_precond_skipped(s.precond) > 0);
        if (!(largest / smallest < 1e3 / (EPSILON * EPSILON))) {
            fail_msg("%s: the diagonal of P spans %g", s.g->spec, largest / smallest);
        }
        stop(&s);
    }
}

/* Started from the first five pairs that are not zero: the geometric mean of the scales that make ||Ph|| = ||v||. */
static void the_first_pairs_give_the_scale(void **state)
{
    (void)state;
    psgd_options *options;
    psgd_precond *precond;
    int64_t n = 2;
    real Q[4];
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "init", "first"));
    assert_ok(psgd_options_set(options, "step", "0"));
    assert_ok(psgd_precond_create(NULL, "tri", 1, &n, REAL_DTYPE, options, &precond));
    const real zero[] = {0, 0}, v[] = {3, 4}, h[] = {0, 20}, one[] = {1, 1};
    assert_ok(psgd_precond_update(precond, zero, h));
    assert_ok(psgd_precond_update(precond, v, zero));
    assert_ok(psgd_precond_factor(precond, 0, Q));
    assert_true(Q[0] == 1 && Q[3] == 1);
    /* sqrt(5 / 20) */
    assert_ok(psgd_precond_update(precond, v, h));
    assert_ok(psgd_precond_factor(precond, 0, Q));
    assert_float_equal((double)Q[0], 0.5, 4 * EPSILON);
    assert_float_equal((double)Q[3], 0.5, 4 * EPSILON);
    /* an outlier, three pairs of scale 1, and one that comes too late */
    const real far[] = {0, (real)5e6};
    assert_ok(psgd_precond_update(precond, v, far));
    for (int i = 0; i < 3; i++) assert_ok(psgd_precond_update(precond, one, one));
    assert_ok(psgd_precond_update(precond, v, far));
    assert_ok(psgd_precond_factor(precond, 0, Q));
    assert_float_equal((double)Q[0], pow(0.5 * 1e-3, 0.2), 16 * EPSILON);
    psgd_precond_free(precond);
    psgd_options_free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_pairs_leave_q_as_it_is),
        cmocka_unit_test(a_common_scale_changes_nothing),
        cmocka_unit_test(huge_curvature_is_followed),
        cmocka_unit_test(norms_do_not_overflow),
        cmocka_unit_test(a_small_part_of_a_sum_moves_as_a_large_one),
        cmocka_unit_test(a_family_in_a_sum_sees_small_values),
        cmocka_unit_test(q_outlives_extreme_pairs),
        cmocka_unit_test(q_is_scaled_back_near_the_limit),
        cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(a_refused_gradient_leaves_the_average_alone),
        cmocka_unit_test(a_family_stops_where_both_images_vanish),
        cmocka_unit_test(the_first_pairs_give_the_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
