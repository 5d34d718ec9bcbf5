/* What an optimizer does tensor by tensor: those without a gradient sit a step out, each has a state of its own; what a
 * program may change or ask between steps. */
#include "support.h"

typedef struct list {
    const char *pairs[16];
} list;

#define WITH(...) ((list){.pairs = {__VA_ARGS__}})

static const int64_t two[] = {2}, three[] = {3};
static const psgd_tensor tensors[] = {{.ndim = 1, .shape = two, .name = "weight"}, {.ndim = 1, .shape = three}};

static psgd_optimizer *make_first(const char *method, int count, list with)
{
    psgd_options *options;
    psgd_optimizer *optimizer;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    for (int i = 0; with.pairs[i]; i += 2) assert_ok(psgd_options_set(options, with.pairs[i], with.pairs[i + 1]));
    assert_ok(psgd_optimizer_create(NULL, method, count, tensors, PSGD_F64, options, &optimizer));
    psgd_options_free(options);
    return optimizer;
}

static psgd_optimizer *make(const char *method, list with)
{
    return make_first(method, 2, with);
}

/* x[0] has two elements, x[1] three; a gradient may be NULL. */
static void step(psgd_optimizer *o, double x[2][3], const double *g0, const double *g1)
{
    assert_ok(psgd_optimizer_step(o, (void *[]){x[0], x[1]}, (const void *[]){g0, g1}, NULL, NULL));
}

static const double ones[] = {1, 1, 1}, twos[] = {2, 2, 2};

static void a_tensor_without_a_gradient_stays(void **state)
{
    (void)state;
    double x[2][3] = {{1, 2}, {3, 4, 5}};
    psgd_optimizer *o = make("sgd", WITH("lr", "0.5", "decay", "0.2"));
    step(o, x, ones, NULL);
    /* x (1 - 0.1) - 0.5 g, and nothing */
    assert_float_equal(x[0][0], 0.4, 1e-15);
    assert_float_equal(x[0][1], 1.3, 1e-15);
    assert_memory_equal(x[1], ((double[]){3, 4, 5}), sizeof x[1]);
    step(o, x, NULL, NULL);
    assert_int_equal(psgd_optimizer_steps(o), 2);
    assert_memory_equal(x[1], ((double[]){3, 4, 5}), sizeof x[1]);
    psgd_optimizer_free(o);
}

static void corrections_go_by_the_steps_of_the_tensor(void **state)
{
    (void)state;
    double x[2][3] = {{0}};
    psgd_optimizer *o = make("adam", WITH("lr", "0.1", "epsilon", "0"));
    step(o, x, ones, NULL);
    step(o, x, ones, NULL);
    step(o, x, NULL, twos); /* the first step of Adam is lr sign(g), whenever it comes */
    assert_float_equal(x[1][0], -0.1, 1e-15);
    psgd_optimizer_free(o);

    memset(x, 0, sizeof x);
    o = make("psgd", WITH("criterion", "fisher", "group", "identity", "momentum", "0.5", "lr", "1"));
    step(o, x, ones, ones);
    step(o, x, twos, NULL);
    step(o, x, NULL, twos);
    /* moving averages 0.5 / 0.5 = 1, then (0.25 + 1) / 0.75 = 5/3 on both tensors */
    assert_float_equal(x[0][0], -1 - 5.0 / 3, 1e-15);
    assert_float_equal(x[1][0], -1 - 5.0 / 3, 1e-15);
    psgd_optimizer_free(o);
}

static void fits_and_draws_go_by_the_steps_of_the_tensor(void **state)
{
    (void)state;
    double x[2][3] = {{0}}, v[3], expected[3];
    psgd_optimizer *o = make("psgd",
                             WITH("criterion", "fisher", "update-every", "2", "seed", "5", "first-tensor", "7"));
    step(o, x, ones, NULL);
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(o, 0)), 1);
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(o, 1)), 0);
    assert_ok(psgd_optimizer_draw(o, 1, v));
    assert_ok(psgd_normal_fill(PSGD_F64, 5, 7 + 1, 0, 0, 3, expected));
    assert_memory_equal(v, expected, sizeof v);
    step(o, x, ones, ones);
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(o, 0)), 1);
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(o, 1)), 1);
    assert_ok(psgd_optimizer_draw(o, 1, v));
    assert_ok(psgd_normal_fill(PSGD_F64, 5, 7 + 1, 1, 0, 3, expected));
    assert_memory_equal(v, expected, sizeof v);
    psgd_optimizer_free(o);
}

static void clipping_is_over_the_tensors_present(void **state)
{
    (void)state;
    double x[2][3] = {{0}};
    psgd_optimizer *o = make("psgd", WITH("criterion", "fisher", "group", "identity", "clip", "1", "lr", "1"));
    step(o, x, (double[]){30, 40}, (double[]){1000, 1000, 1000});
    memset(x, 0, sizeof x);
    step(o, x, (double[]){3, 4}, NULL);
    assert_float_equal(x[0][0], -0.6, 1e-15);
    assert_float_equal(x[0][1], -0.8, 1e-15);
    psgd_optimizer_free(o);
}

static void products_are_wanted_tensor_by_tensor(void **state)
{
    (void)state;
    double x[2][3] = {{0}}, Q[9];
    const double *none = NULL;
    psgd_optimizer *o = make("psgd",
                             WITH("update-every", "2", "group", "diag", "step", "0.5", "norm", "max", "lr", "1"));
    void *theta[] = {x[0], x[1]};
    assert_int_equal(psgd_optimizer_tensor_wants_product(o, 0), 1);
    assert_int_equal(psgd_optimizer_tensor_wants_product(o, 1), 1);
    /* R = (4 - 1, 0.25 - 1) = (3, -0.75); q = 1 - 0.5 R / 3. An h that is missing leaves Q as it is. */
    assert_ok(psgd_optimizer_step(o, theta, (const void *[]){ones, twos}, (const void *[]){ones, none},
                                  (const void *[]){(double[]){2, 0.5}, none}));
    assert_ok(psgd_precond_factor(psgd_optimizer_precond(o, 0), 0, Q));
    assert_float_equal(Q[0], 0.5, 1e-15);
    assert_float_equal(Q[3], 1.125, 1e-15);
    assert_float_equal(x[0][0], -0.25, 1e-15);
    assert_float_equal(x[1][2], -2, 1e-15);
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(o, 1)), 0);
    assert_int_equal(psgd_optimizer_wants_product(o), 0);
    step(o, x, ones, NULL);
    assert_int_equal(psgd_optimizer_tensor_wants_product(o, 0), 1);
    assert_int_equal(psgd_optimizer_tensor_wants_product(o, 1), 0);
    assert_int_equal(psgd_optimizer_wants_product(o), 1);
    step(o, x, NULL, ones); /* nobody present wants one */
    assert_fails(psgd_optimizer_step(o, theta, (const void *[]){ones, none}, NULL, NULL), PSGD_ERR_ARGUMENT, "needs v");
    assert_fails(psgd_optimizer_step(o, theta, (const void *[]){ones, none}, (const void *[]){none, none},
                                     (const void *[]){ones, none}),
                 PSGD_ERR_ARGUMENT, "no v for weight");
    psgd_optimizer_free(o);
}

static void q_alone_can_multiply(void **state)
{
    (void)state;
    double x[2] = {0};
    psgd_optimizer *o = make_first("psgd", 1,
                                   WITH("group", "diag", "step", "0.5", "norm", "max", "lr", "1", "apply", "q"));
    assert_ok(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){ones}, (const void *[]){ones},
                                  (const void *[]){(double[]){2, 0.5}}));
    assert_float_equal(x[0], -0.5, 1e-15);
    assert_float_equal(x[1], -1.125, 1e-15);
    psgd_optimizer_free(o);
}

static void a_joint_fit_leaves_absent_tensors_out(void **state)
{
    (void)state;
    list with = WITH("criterion", "fisher", "group", "diag", "joint", "yes", "clip", "0.5", "norm", "max");
    psgd_optimizer *both = make("psgd", with), *alone = make_first("psgd", 1, with);
    double x[2][3] = {{1, 2}, {3, 4, 5}}, y[2] = {1, 2}, Q[25];
    for (int k = 0; k < 5; k++) {
        step(both, x, x[0], NULL);
        assert_ok(psgd_optimizer_step(alone, (void *[]){y}, (const void *[]){y}, NULL, NULL));
        assert_float_equal(x[0][0], y[0], 1e-14);
        assert_float_equal(x[0][1], y[1], 1e-14);
    }
    assert_memory_equal(x[1], ((double[]){3, 4, 5}), sizeof x[1]);
    assert_ok(psgd_precond_factor(psgd_optimizer_precond(both, 1), 0, Q));
    for (int i = 2; i < 5; i++) assert_float_equal(Q[6 * i], 1, 0);
    assert_true(Q[0] != 1 && Q[6] != 1);
    psgd_optimizer_free(both);
    psgd_optimizer_free(alone);
    both = make("psgd", WITH("criterion", "fisher", "group", "diag", "joint", "yes", "integrate", "yes"));
    assert_fails(psgd_optimizer_step(both, (void *[]){x[0], x[1]}, (const void *[]){NULL, ones}, NULL, NULL),
                 PSGD_ERR_UNSUPPORTED, "weight has no gradient");
    psgd_optimizer_free(both);
}

static void check_tells_what_a_step_would_skip(void **state)
{
    (void)state;
    double x[2][3] = {{0}};
    psgd_optimizer *o = make("sgd", WITH("lr", "1"));
    const double bad[] = {1, NAN, 1};
    const double *none = NULL;
    assert_ok(psgd_optimizer_check(o, NULL, (const void *[]){ones, none}, NULL, NULL));
    assert_fails(psgd_optimizer_check(o, NULL, (const void *[]){bad, ones}, NULL, NULL), PSGD_ERR_NOT_FINITE,
                 "the gradient of weight");
    assert_fails(psgd_optimizer_check(o, NULL, (const void *[]){none, bad}, NULL, NULL), PSGD_ERR_NOT_FINITE,
                 "tensor 1");
    assert_int_equal(psgd_optimizer_steps(o), 0);
    assert_int_equal(psgd_optimizer_skipped(o), 0);
    step(o, x, none, bad);
    assert_string_equal(psgd_optimizer_note(o), "the gradient of tensor 1 is not finite");
    assert_int_equal(psgd_optimizer_skipped(o), 1);
    psgd_optimizer_free(o);
}

static void some_options_change_between_steps(void **state)
{
    (void)state;
    double x[2][3] = {{0}};
    psgd_optimizer *o = make("sgd", WITH("lr", "1", "lr-schedule", "step", "lr-every", "1", "lr-factor", "0.5"));
    step(o, x, ones, ones);
    assert_ok(psgd_optimizer_set_number(o, "lr", 4)); /* the schedule stays: 4 / 2 */
    assert_float_equal(psgd_optimizer_rate(o), 2, 0);
    assert_ok(psgd_optimizer_set_number(o, "decay", 0.25));
    step(o, x, ones, NULL);
    assert_float_equal(x[0][0], -1 * (1 - 2 * 0.25) - 2, 1e-15);
    assert_fails(psgd_optimizer_set_number(o, "lr", -1), PSGD_ERR_ARGUMENT, "at least 0");
    assert_fails(psgd_optimizer_set_number(o, "lr", NAN), PSGD_ERR_ARGUMENT, "finite");
    assert_fails(psgd_optimizer_set_number(o, "clip", 1), PSGD_ERR_ARGUMENT, "not clip");
    assert_fails(psgd_optimizer_set_number(o, "momentum", 0.5), PSGD_ERR_UNSUPPORTED, "momentum");
    assert_fails(psgd_optimizer_set_number(o, "step", 2), PSGD_ERR_ARGUMENT, "below 1");
    assert_float_equal(psgd_optimizer_rate(o), 1, 0);
    psgd_optimizer_free(o);
}

static void *save_tensor(const psgd_optimizer *o, int tensor)
{
    void *bytes = malloc((size_t)psgd_optimizer_tensor_state_bytes(o, tensor));
    assert_ok(psgd_optimizer_tensor_state_save(o, tensor, bytes));
    return bytes;
}

static void load_tensor(psgd_optimizer *o, const psgd_optimizer *from, int tensor)
{
    void *bytes = save_tensor(from, tensor);
    assert_ok(psgd_optimizer_tensor_state_load(o, tensor, psgd_optimizer_tensor_state_bytes(from, tensor), bytes));
    free(bytes);
}

static void states_of_tensors_make_the_whole(void **state)
{
    (void)state;
    for (int joint = 0; joint < 2; joint++) {
        list with = WITH("criterion", "fisher", "group", "tri", "momentum", "0.9", "joint", joint ? "yes" : "no",
                         "update-probability", "0.5");
        psgd_optimizer *first = make("psgd", with), *again = make("psgd", with);
        double x[2][3] = {{1, 2}, {3, 4, 5}}, y[2][3];
        for (int k = 0; k < 20; k++) step(first, x, x[0], k % 3 ? x[1] : NULL);
        memcpy(y, x, sizeof x);
        load_tensor(again, first, 1);
        load_tensor(again, first, PSGD_SHARED_STATE);
        load_tensor(again, first, 0);
        for (int k = 0; k < 20; k++) {
            step(first, x, k % 4 ? x[0] : NULL, x[1]);
            step(again, y, k % 4 ? y[0] : NULL, y[1]);
        }
        assert_memory_equal(x, y, sizeof x);

        int64_t bytes = psgd_optimizer_state_bytes(first), at = 0;
        char *whole = malloc((size_t)bytes);
        assert_ok(psgd_optimizer_state_save(first, whole));
        for (int i = PSGD_SHARED_STATE; i < 2; i++) {
            void *part = save_tensor(first, i);
            assert_memory_equal(whole + at, part, (size_t)psgd_optimizer_tensor_state_bytes(first, i));
            at += psgd_optimizer_tensor_state_bytes(first, i);
            free(part);
        }
        assert_int_equal(at, bytes);
        free(whole);
        psgd_optimizer_free(first);
        psgd_optimizer_free(again);
    }
}

static void the_state_of_another_tensor_is_refused(void **state)
{
    (void)state;
    psgd_optimizer *o = make("adam", WITH("lr", "1")), *other = make("rmsprop", WITH("lr", "1"));
    void *bytes = save_tensor(o, 0);
    int64_t count = psgd_optimizer_tensor_state_bytes(o, 0);
    assert_fails(psgd_optimizer_tensor_state_load(o, 1, count, bytes), PSGD_ERR_FORMAT, "tensor 1");
    assert_int_equal(psgd_optimizer_tensor_state_load(o, PSGD_SHARED_STATE, count, bytes), PSGD_ERR_FORMAT);
    assert_fails(psgd_optimizer_tensor_state_load(other, 0, count, bytes), PSGD_ERR_FORMAT, "of adam, not of rmsprop");
    for (int64_t cut = 0; cut < count; cut += 13) {
        assert_int_equal(psgd_optimizer_tensor_state_load(o, 0, cut, bytes), PSGD_ERR_FORMAT);
    }
    assert_int_equal(psgd_optimizer_tensor_state_load(o, 2, count, bytes), PSGD_ERR_ARGUMENT);
    assert_int_equal(psgd_optimizer_tensor_state_load(o, -2, count, bytes), PSGD_ERR_ARGUMENT);
    assert_int_equal(psgd_optimizer_tensor_state_bytes(o, 2), 0);
    assert_ok(psgd_optimizer_tensor_state_load(o, 0, count, bytes));
    free(bytes);
    psgd_optimizer_free(o);
    psgd_optimizer_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_without_a_gradient_stays),
        cmocka_unit_test(corrections_go_by_the_steps_of_the_tensor),
        cmocka_unit_test(fits_and_draws_go_by_the_steps_of_the_tensor),
        cmocka_unit_test(clipping_is_over_the_tensors_present),
        cmocka_unit_test(products_are_wanted_tensor_by_tensor),
        cmocka_unit_test(q_alone_can_multiply),
        cmocka_unit_test(a_joint_fit_leaves_absent_tensors_out),
        cmocka_unit_test(check_tells_what_a_step_would_skip),
        cmocka_unit_test(some_options_change_between_steps),
        cmocka_unit_test(states_of_tensors_make_the_whole),
        cmocka_unit_test(the_state_of_another_tensor_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
