/* Optimizers: steps worked by hand, clipping, schedules of the step size. */
#include "support.h"

typedef struct list {
    const char *pairs[24];
} list;

static psgd_optimizer *make(const char *method, psgd_dtype dtype, const psgd_tensor *tensors, int count, list with)
{
    psgd_options *options;
    psgd_optimizer *optimizer;
    assert_ok(psgd_options_create(NULL, &options));
    for (int i = 0; with.pairs[i]; i += 2) assert_ok(psgd_options_set(options, with.pairs[i], with.pairs[i + 1]));
    assert_ok(psgd_optimizer_create(NULL, method, count, tensors, dtype, options, &optimizer));
    psgd_options_free(options);
    return optimizer;
}

static const int64_t two[] = {2};
static const psgd_tensor vector = {.ndim = 1, .shape = two};

static psgd_optimizer *make_two(const char *method, list with)
{
    return make(method, PSGD_F64, &vector, 1, with);
}

#define WITH(...) ((list){.pairs = {__VA_ARGS__}})

static void step(psgd_optimizer *optimizer, double *x, const double *g)
{
    assert_ok(psgd_optimizer_step(optimizer, (void *[]){x}, (const void *[]){g}, NULL, NULL));
}

static void sgd_with_decay_and_l2(void **state)
{
    (void)state;
    double x[] = {1, -2};
    psgd_optimizer *o = make_two("sgd", WITH("lr", "0.1", "l2", "0.5", "decay", "0.2"));
    step(o, x, (double[]){1, 1});
    /* x (1 - 0.02) - 0.1 (g + 0.5 x) */
    assert_float_equal(x[0], 0.98 - 0.15, 1e-15);
    assert_float_equal(x[1], -1.96 - 0, 1e-15);
    psgd_optimizer_free(o);
}

static void momentum_and_nesterov_follow_the_papers_formulas(void **state)
{
    (void)state;
    double x[] = {1, 2}, y[] = {1, 2}, u[2] = {0}, w[2] = {0}, t[] = {1, 2}, s[] = {1, 2}, at[2];
    psgd_optimizer *ball = make_two("momentum", WITH("lr", "0.1"));
    psgd_optimizer *ahead = make_two("nesterov", WITH("lr", "0.1"));
    for (int k = 0; k < 5; k++) { /* f = x'x / 2: g = x */
        step(ball, x, x);
        step(ahead, y, y);
        assert_ok(psgd_optimizer_position(ahead, (const void *[]){y}, (void *[]){at}));
        for (int i = 0; i < 2; i++) {
            u[i] = 0.9 * u[i] - 0.1 * t[i];
            t[i] += u[i];
            w[i] = 0.9 * w[i] - 0.1 * (s[i] + 0.9 * w[i]);
            s[i] += w[i];
            assert_float_equal(x[i], t[i], 1e-14);
            assert_float_equal(at[i], s[i], 1e-14);
        }
    }
    psgd_optimizer_free(ball);
    psgd_optimizer_free(ahead);
}

static void adam_and_rmsprop_first_steps(void **state)
{
    (void)state;
    double x[] = {0, 0}, y[] = {0, 0}, z[] = {0, 0};
    psgd_optimizer *adam = make_two("adam", WITH("lr", "0.1", "epsilon", "0"));
    psgd_optimizer *rms = make_two("rmsprop", WITH("lr", "0.1", "epsilon", "0", "beta2", "0.75"));
    psgd_optimizer *sum = make_two("adagrad", WITH("lr", "0.1", "epsilon", "0"));
    step(adam, x, (double[]){3, 0});
    step(rms, y, (double[]){3, 0});
    step(sum, z, (double[]){3, 0});
    step(sum, z, (double[]){4, 0});
    assert_float_equal(x[0], -0.1, 1e-15); /* corrected: g / |g| */
    assert_float_equal(y[0], -0.2, 1e-15); /* g / sqrt(g^2 / 4) */
    assert_float_equal(z[0], -0.1 - 0.1 * 4 / 5, 1e-15);
    assert_float_equal(x[1], 0, 0); /* 0 / 0 is no step */
    psgd_optimizer_free(adam);
    psgd_optimizer_free(rms);
    psgd_optimizer_free(sum);
}

/* d = g / sqrt(s^2 + epsilon^2): with g = 3 and epsilon = 4 five below the line. */
static void epsilon_may_stand_under_the_root(void **state)
{
    (void)state;
    static const struct {
        const char *method, *beta2;
        double first, second; /* s^2 after a gradient of 3, and after a second one of 1 */
    } cases[] = {{"adagrad", "0", 9, 10},
                 {"rmsprop", "0.75", 9.0 / 4, 9.0 / 4 * 0.75 + 0.25},
                 {"adam", "0.75", 9, (9.0 / 4 * 0.75 + 0.25) / (1 - 0.75 * 0.75)},
                 {"adamw", "0.75", 9, (9.0 / 4 * 0.75 + 0.25) / (1 - 0.75 * 0.75)},
                 {"sparse-adam", "0.75", 9, (9.0 / 4 * 0.75 + 0.25) / (1 - 0.75 * 0.75)}};
    for (int k = 0; k < 5; k++) {
        double x[] = {0, 0}, e = 4;
        psgd_optimizer *o = make_two(cases[k].method, WITH("lr", "0.1", "beta1", "0", "beta2", cases[k].beta2, "decay",
                                                           "0", "epsilon", "4", "epsilon-inside", "yes"));
        step(o, x, (double[]){3, 0});
        assert_float_equal(x[0], -0.1 * 3 / sqrt(cases[k].first + e * e), 1e-15);
        x[0] = 0;
        step(o, x, (double[]){1, 0});
        assert_float_equal(x[0], -0.1 / sqrt(cases[k].second + e * e), 1e-15);
        assert_float_equal(x[1], 0, 0);
        psgd_optimizer_free(o);
    }
    double x[] = {0, 0}, g[] = {3, 1}, v[] = {1, 1}, h[] = {3, 0};
    psgd_optimizer *o = make_two("esgd", WITH("lr", "0.1", "epsilon", "4", "epsilon-inside", "yes"));
    assert_ok(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){g}, (const void *[]){v}, (const void *[]){h}));
    assert_float_equal(x[0], -0.1 * 3 / 5, 1e-15);
    assert_float_equal(x[1], -0.1 / 4, 1e-15);
    psgd_optimizer_free(o);
}

static void squares_of_f32_gradients_stay_in_range(void **state)
{
    (void)state;
    psgd_optimizer *o = make("adam", PSGD_F32, &vector, 1, WITH("lr", "0.5", "epsilon", "0"));
    float x[] = {0, 0}, g[] = {1e30f, 1e-30f};
    for (int k = 0; k < 3; k++) {
        assert_ok(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){g}, NULL, NULL));
    }
    assert_float_equal(x[0], -1.5, 1e-5);
    assert_float_equal(x[1], -1.5, 1e-5);
    psgd_optimizer_free(o);
}

/* One pass and two passes give the same values. */
static void clipping_that_never_clips_changes_nothing(void **state)
{
    (void)state;
    static const char *const methods[] = {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"};
    for (int m = 0; m < 7; m++) {
        double x[] = {1, -1}, y[] = {1, -1};
        psgd_optimizer *plain = make_two(methods[m], WITH("l2", "0.01"));
        psgd_optimizer *apart = make_two(methods[m], WITH("l2", "0.01", "clip", "1e9", "check", "no"));
        for (int k = 0; k < 5; k++) {
            step(plain, x, (double[]){x[0] + k, x[1]});
            step(apart, y, (double[]){y[0] + k, y[1]});
        }
        assert_float_equal(x[0], y[0], 1e-15);
        assert_float_equal(x[1], y[1], 1e-15);
        psgd_optimizer_free(plain);
        psgd_optimizer_free(apart);
    }
}

static void clipping_is_joint_over_tensors(void **state)
{
    (void)state;
    const psgd_tensor both[] = {vector, vector};
    double x[] = {0, 0}, y[] = {0, 0}, g[] = {3, 0}, h[] = {0, 4};
    psgd_optimizer *o = make("sgd", PSGD_F64, both, 2, WITH("lr", "1", "clip", "0.5", "clip-by", "sqrt"));
    /* the norm is 5, the limit 0.5 sqrt(4) = 1 */
    assert_ok(psgd_optimizer_step(o, (void *[]){x, y}, (const void *[]){g, h}, NULL, NULL));
    assert_float_equal(x[0], -0.6, 1e-15);
    assert_float_equal(y[1], -0.8, 1e-15);
    psgd_optimizer_free(o);

    o = make("sgd", PSGD_F64, both, 2, WITH("lr", "1", "clip-element", "2"));
    x[0] = y[1] = 0;
    assert_ok(psgd_optimizer_step(o, (void *[]){x, y}, (const void *[]){g, (double[]){0, 1}}, NULL, NULL));
    assert_float_equal(x[0], -2, 0);
    assert_float_equal(y[1], -1, 0);
    psgd_optimizer_free(o);

    o = make("sgd", PSGD_F64, both, 2, WITH("lr", "1", "clip-rms", "1"));
    x[0] = y[1] = 0;
    assert_ok(psgd_optimizer_step(o, (void *[]){x, y}, (const void *[]){g, (double[]){0, 1}}, NULL, NULL));
    assert_float_equal(x[0], -sqrt(2), 1e-15);
    assert_float_equal(y[1], -1, 0);
    psgd_optimizer_free(o);
}

/* ||theta|| = 5 over both tensors, so a direction may have 2.5; where theta starts at zero the first direction counts.
 */
static void clipping_relative_to_theta(void **state)
{
    (void)state;
    const psgd_tensor both[] = {vector, vector};
    double x[] = {3, 0}, y[] = {0, 4}, g[] = {6, 0}, h[] = {0, 8};
    psgd_optimizer *o = make("sgd", PSGD_F64, both, 2, WITH("lr", "1", "clip-relative", "0.5"));
    assert_ok(psgd_optimizer_step(o, (void *[]){x, y}, (const void *[]){g, h}, NULL, NULL));
    assert_float_equal(x[0], 1.5, 1e-15);
    assert_float_equal(y[1], 2, 1e-15);
    psgd_optimizer_free(o);

    o = make("sgd", PSGD_F64, &vector, 1, WITH("lr", "1", "clip-relative", "0.5"));
    double z[] = {0, 0};
    step(o, z, (double[]){0, 0}); /* says nothing about a scale */
    step(o, z, (double[]){0, 8});
    assert_float_equal(z[1], -4, 1e-15);
    step(o, z, (double[]){0, 100}); /* the larger of 4 and 8 counts */
    assert_float_equal(z[1], -8, 1e-15);
    psgd_optimizer_free(o);
}

/* The average is 1 at first; a longer direction counts as 4, which makes it 0.95 + 0.05 * 4 = 1.15. */
static void clipping_relative_to_recent_directions(void **state)
{
    (void)state;
    psgd_optimizer *o = make("sgd", PSGD_F64, &vector, 1, WITH("lr", "1", "clip-recent", "4"));
    double x[] = {0, 0};
    step(o, x, (double[]){0, 0}); /* says nothing */
    step(o, x, (double[]){0, 1});
    assert_float_equal(x[1], -1, 0);
    step(o, x, (double[]){0, 100});
    assert_float_equal(x[1], -5, 1e-15);
    step(o, x, (double[]){100, 0});
    assert_float_equal(x[0], -4.6, 1e-15);
    psgd_optimizer_free(o);
}

/* P = I, as h = v. The first step has a pair, and then only that after a surprise. */
static void a_surprise_is_followed_by_a_fit(void **state)
{
    (void)state;
    static const char *const probabilities[] = {"1", "0"}; /* of a fit that is due: none where nobody wants any */
    for (int k = 0; k < 2; k++) {
        psgd_optimizer *o = make("psgd-newton", PSGD_F64, &vector, 1,
                                 WITH("defaults", "paper", "update-every", "1000", "clip-recent", "4",
                                      "update-probability", probabilities[k]));
        static const double gradients[] = {1, 1, 100, 1, 1};
        double x[] = {0, 0}, v[] = {1, 1};
        for (int i = 0; i < 5; i++) {
            bool wants = psgd_optimizer_wants_product(o);
            assert_int_equal(wants, k == 0 && (i == 0 || i == 3));
            const void *pair[] = {v};
            assert_ok(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){(double[]){0, gradients[i]}},
                                          wants ? pair : NULL, wants ? pair : NULL));
        }
        psgd_optimizer_free(o);
    }
}

/* A mean of gradients that ends decays to zero, not to subnormal values, which are slow to compute with. */
static void momentum_without_gradients_ends(void **state)
{
    (void)state;
    psgd_optimizer *o = make("momentum", PSGD_F32, &vector, 1, WITH("lr", "1", "momentum", "0.5"));
    float x[] = {0, 0}, g[] = {0x1p-100f, 0};
    for (int k = 0; k < 40; k++) {
        x[0] = 0;
        assert_ok(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){g}, NULL, NULL));
        assert_true(x[0] == (k < 19 ? -ldexpf(1, -100 - k) : 0)); /* 2^-126 is the smallest normal value */
        g[0] = 0;
    }
    psgd_optimizer_free(o);
}

/* u <- 0.9 u + g min(1, 1 / ||g||), the norm over both tensors; the caller's gradients stay. */
static void gradients_are_clipped_before_momentum(void **state)
{
    (void)state;
    const psgd_tensor both[] = {vector, vector};
    double x[] = {0, 0}, y[] = {0, 0}, g[] = {3, 0}, h[] = {0, 4};
    psgd_optimizer *o = make("momentum", PSGD_F64, both, 2, WITH("lr", "1", "clip-gradient", "1"));
    assert_ok(psgd_optimizer_step(o, (void *[]){x, y}, (const void *[]){g, h}, NULL, NULL));
    assert_float_equal(x[0], -0.6, 1e-15);
    assert_float_equal(y[1], -0.8, 1e-15);
    assert_true(g[0] == 3 && h[1] == 4);
    assert_ok(psgd_optimizer_step(o, (void *[]){x, y}, (const void *[]){g, NULL}, NULL, NULL)); /* its norm alone */
    assert_float_equal(x[0], -0.6 - (0.54 + 1), 1e-15);
    assert_float_equal(y[1], -0.8, 0);
    psgd_optimizer_free(o);

    float z[] = {0, 0}, huge[] = {3e38f, 3e38f};
    o = make("sgd", PSGD_F32, &vector, 1, WITH("lr", "1", "clip-gradient", "0.25"));
    assert_ok(psgd_optimizer_step(o, (void *[]){z}, (const void *[]){huge}, NULL, NULL));
    assert_float_equal(z[0], -0.25 / sqrt(2), 1e-7);
    psgd_optimizer_free(o);
    double w[] = {0, 0}, vast[] = {3e200, 4e200};
    o = make_two("sgd", WITH("lr", "1", "clip-gradient", "1"));
    step(o, w, vast);
    assert_float_equal(w[0], -0.6, 1e-15);
    psgd_optimizer_free(o);
}

static void schedules_are_what_they_say(void **state)
{
    (void)state;
    double x[] = {0, 0}, g[] = {1, 1};
    psgd_optimizer *o = make_two("sgd", WITH("lr", "8", "lr-schedule", "step", "lr-every", "2", "warmup", "2"));
    const double expected[] = {4, 8, 2, 2, 0.5};
    for (int k = 0; k < 5; k++) {
        assert_float_equal(psgd_optimizer_rate(o), expected[k], 1e-15);
        step(o, x, g);
    }
    psgd_optimizer_free(o);

    o = make_two("sgd", WITH("lr", "1", "lr-schedule", "cosine", "total", "4", "lr-floor", "0.5"));
    for (int k = 0; k < 2; k++) step(o, x, g);
    assert_float_equal(psgd_optimizer_rate(o), 0.75, 1e-15);
    for (int k = 0; k < 3; k++) step(o, x, g);
    assert_float_equal(psgd_optimizer_rate(o), 0.5, 1e-15);
    psgd_optimizer_free(o);

    o = make_two("sgd", WITH("lr", "1", "lr-schedule", "plateau"));
    const double losses[] = {5, 3, 4, 3.5, 2};
    for (int k = 0; k < 5; k++) assert_ok(psgd_optimizer_validate(o, losses[k]));
    assert_float_equal(psgd_optimizer_rate(o), 1.0 / 16, 1e-15);
    psgd_optimizer_free(o);
}

/* A gradient within the limit stays as it is. */
static void a_short_gradient_is_not_clipped(void **state)
{
    (void)state;
    double x[] = {1, 2};
    psgd_optimizer *o = make_two("sgd", WITH("lr", "1", "clip-gradient", "1"));
    step(o, x, (double[]){0.3, 0.4});
    assert_float_equal(x[0], 0.7, 1e-15);
    assert_float_equal(x[1], 1.6, 1e-15);
    psgd_optimizer_free(o);
}

static int narrow_bowl(void *data, const void *const *at, double *loss, void *const *gradient)
{
    (void)data;
    const double *x = at[0];
    double *g = gradient[0];
    *loss = (x[0] * x[0] + 10 * x[1] * x[1]) / 2;
    g[0] = x[0];
    g[1] = 10 * x[1];
    return 0;
}

/* The second direction of L-BFGS is -Hg, H from the first step: H y = s, and H = (y's / y'y) I across. */
static void lbfgs_follows_the_two_loops(void **state)
{
    (void)state;
    double x[] = {3, 1}, x0[2], x1[2];
    void *theta[] = {x};
    psgd_objective objective = {.gradient = narrow_bowl};
    psgd_optimizer *o = make_two("lbfgs", WITH(NULL));
    assert_ok(psgd_optimizer_bind(o, &objective));
    memcpy(x0, x, sizeof x);
    assert_ok(psgd_optimizer_iterate(o, theta, NULL));
    memcpy(x1, x, sizeof x);
    assert_ok(psgd_optimizer_iterate(o, theta, NULL));
    double step[] = {x[0] - x1[0], x[1] - x1[1]}, s[] = {x1[0] - x0[0], x1[1] - x0[1]}, y[] = {s[0], 10 * s[1]};
    double g[] = {x1[0], 10 * x1[1]}, sy = s[0] * y[0] + s[1] * y[1], yy = y[0] * y[0] + y[1] * y[1], d[2];
    double alpha = (s[0] * g[0] + s[1] * g[1]) / sy, q[] = {g[0] - alpha * y[0], g[1] - alpha * y[1]};
    double beta = sy / yy * (y[0] * q[0] + y[1] * q[1]) / sy;
    for (int i = 0; i < 2; i++) d[i] = -(sy / yy * q[i] + (alpha - beta) * s[i]);
    double length = hypot(step[0], step[1]) * hypot(d[0], d[1]);
    assert_true(length > 0 && step[0] * d[0] + step[1] * d[1] > 0);
    assert_float_equal((step[0] * d[1] - step[1] * d[0]) / length, 0, 1e-9);
    psgd_optimizer_free(o);
}

/* x above 0, and minus infinity below: a search must not end there. */
static int edge(void *data, const void *const *at, double *loss, void *const *gradient)
{
    (void)data;
    const double *x = at[0];
    double *g = gradient[0];
    *loss = x[0] > 0 ? x[0] + x[1] * x[1] : -HUGE_VAL;
    g[0] = 1;
    g[1] = 2 * x[1];
    return 0;
}

static void a_search_does_not_end_where_the_function_is_infinite(void **state)
{
    (void)state;
    double x[] = {3, 1}, loss;
    void *theta[] = {x};
    psgd_objective objective = {.gradient = edge};
    psgd_optimizer *o = make_two("lbfgs", WITH(NULL));
    assert_ok(psgd_optimizer_bind(o, &objective));
    for (int t = 0; t < 6; t++) {
        (void)psgd_optimizer_iterate(o, theta, &loss);
        assert_true(x[0] > 0 && isfinite(x[1]));
    }
    assert_true(x[0] < 3);
    psgd_optimizer_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_gradient_is_not_clipped),
        cmocka_unit_test(lbfgs_follows_the_two_loops),
        cmocka_unit_test(a_search_does_not_end_where_the_function_is_infinite),
        cmocka_unit_test(sgd_with_decay_and_l2),
        cmocka_unit_test(momentum_and_nesterov_follow_the_papers_formulas),
        cmocka_unit_test(adam_and_rmsprop_first_steps),
        cmocka_unit_test(epsilon_may_stand_under_the_root),
        cmocka_unit_test(squares_of_f32_gradients_stay_in_range),
        cmocka_unit_test(clipping_that_never_clips_changes_nothing),
        cmocka_unit_test(clipping_is_joint_over_tensors),
        cmocka_unit_test(clipping_relative_to_theta),
        cmocka_unit_test(clipping_relative_to_recent_directions),
        cmocka_unit_test(a_surprise_is_followed_by_a_fit),
        cmocka_unit_test(momentum_without_gradients_ends),
        cmocka_unit_test(gradients_are_clipped_before_momentum),
        cmocka_unit_test(schedules_are_what_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
