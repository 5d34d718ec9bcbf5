/* Optimizers: updates, both ways in, what is not finite, state, bad input. */
#include "support.h"

#include <unistd.h>

typedef struct list {
    const char *pairs[24];
} list;

static psgd_optimizer *make(const char *method, psgd_dtype dtype, const psgd_tensor *tensors, int count, list with)
{
    psgd_options *options;
    psgd_optimizer *optimizer;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    for (int i = 0; with.pairs[i]; i += 2) assert_ok(psgd_options_set(options, with.pairs[i], with.pairs[i + 1]));
    assert_ok(psgd_optimizer_create(NULL, method, count, tensors, dtype, options, &optimizer));
    psgd_options_free(options);
    return optimizer;
}

static const int64_t two[] = {2}, matrix[] = {2, 3};
static const psgd_tensor vector = {.ndim = 1, .shape = two};

static psgd_optimizer *make_two(const char *method, list with)
{
    return make(method, PSGD_F64, &vector, 1, with);
}

#define WITH(...) ((list){.pairs = {__VA_ARGS__}})
#define NOTHING   ((list){.pairs = {NULL}})

static void step(psgd_optimizer *optimizer, double *x, const double *g)
{
    assert_ok(psgd_optimizer_step(optimizer, (void *[]){x}, (const void *[]){g}, NULL, NULL));
}

static void updates_come_as_often_as_set(void **state)
{
    (void)state;
    double x[] = {1, 1}, g[] = {0.1, 0.2};
    psgd_optimizer *o = make_two("psgd", WITH("criterion", "fisher", "update-every", "3"));
    for (int k = 0; k < 9; k++) step(o, x, g);
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(o, 0)), 3);
    psgd_optimizer_free(o);

    o = make_two("psgd", WITH("criterion", "fisher", "update-anneal", "1000"));
    int64_t first = 0;
    for (int k = 0; k < 3000; k++) {
        step(o, x, g);
        if (k == 99) first = psgd_precond_updates(psgd_optimizer_precond(o, 0));
    }
    int64_t all = psgd_precond_updates(psgd_optimizer_precond(o, 0));
    assert_in_range(first, 70, 99);            /* falls from 1 to 0.7 */
    assert_in_range(all, 277 + 20, 277 + 120); /* (1 - 0.03) / log(1 / 0.03) 1000, and 0.03 2000 */
    psgd_optimizer_free(o);
}

/* f = x'Dx / 2 with D = diag(1, 100). */
static int quadratic(void *data, const void *const *theta, double *loss, void *const *gradient)
{
    const double *x = theta[0];
    double *g = gradient[0];
    if (data && *(int *)data) return *(int *)data;
    *loss = (x[0] * x[0] + 100 * x[1] * x[1]) / 2;
    g[0] = x[0];
    g[1] = 100 * x[1];
    return 0;
}

static int quadratic_product(void *data, const void *const *theta, const void *const *v, double *loss,
                             void *const *gradient, void *const *h)
{
    ((double *)h[0])[0] = ((const double *)v[0])[0];
    ((double *)h[0])[1] = 100 * ((const double *)v[0])[1];
    return quadratic(data, theta, loss, gradient);
}

static double minimise(const char *method, list with, bool exact, int steps)
{
    double x[] = {1, 1}, loss;
    psgd_objective objective = {.gradient = quadratic, .product = exact ? quadratic_product : NULL};
    psgd_optimizer *o = make_two(method, with);
    assert_ok(psgd_optimizer_bind(o, &objective));
    for (int k = 0; k < steps; k++) assert_ok(psgd_optimizer_iterate(o, (void *[]){x}, &loss));
    psgd_optimizer_free(o);
    return (x[0] * x[0] + 100 * x[1] * x[1]) / 2;
}

static void every_method_lowers_a_quadratic(void **state)
{
    (void)state;
    for (int i = 0; psgd_method_name(i); i++) {
        double value = minimise(psgd_method_name(i), WITH("lr", "0.005"), true, 400);
        if (!(value < 50)) fail_msg("%s ends at %g", psgd_method_name(i), value);
    }
    assert_true(minimise("lbfgs", NOTHING, true, 12) < 1e-20);
    assert_true(minimise("newton-cg", WITH("cg-tolerance", "1e-9"), true, 4) < 1e-20);
    list newton = WITH("group", "tri", "lr", "0.5", "step", "0.2", "init-scale", "0.1");
    assert_true(minimise("psgd", newton, true, 400) < 1e-20);
    assert_true(minimise("psgd", newton, false, 400) < 1e-15); /* by finite differences */
}

static void drawn_v_depends_on_seed_step_and_tensor_alone(void **state)
{
    (void)state;
    const psgd_tensor both[] = {vector, vector};
    double a[2], b[2], c[2], x[] = {1, 1}, h[] = {1, 1};
    psgd_optimizer *o = make("psgd", PSGD_F64, both, 2, NOTHING), *p = make("psgd", PSGD_F64, both, 2, NOTHING);
    assert_int_equal(psgd_optimizer_wants_product(o), 1);
    assert_ok(psgd_optimizer_draw(o, 0, a));
    assert_ok(psgd_optimizer_draw(o, 1, b));
    assert_ok(psgd_optimizer_draw(p, 0, c));
    assert_memory_equal(a, c, sizeof a);
    assert_memory_not_equal(a, b, sizeof a);
    assert_ok(psgd_optimizer_step(o, (void *[]){x, x}, (const void *[]){h, h}, (const void *[]){a, b},
                                  (const void *[]){h, h}));
    assert_ok(psgd_optimizer_draw(o, 0, c));
    assert_memory_not_equal(a, c, sizeof a);
    psgd_optimizer_free(o);
    psgd_optimizer_free(p);
}

static void both_ways_in_are_the_same(void **state)
{
    (void)state;
    double x[] = {1, 1}, y[] = {1, 1}, g[2], v[2], h[2], loss;
    psgd_objective objective = {.gradient = quadratic, .product = quadratic_product};
    list with = WITH("group", "tri", "lr", "0.3", "momentum", "0.5", "update-every", "2");
    psgd_optimizer *closure = make_two("psgd", with), *steps = make_two("psgd", with);
    assert_ok(psgd_optimizer_bind(closure, &objective));
    for (int k = 0; k < 20; k++) {
        assert_ok(psgd_optimizer_iterate(closure, (void *[]){x}, NULL));
        assert_ok(psgd_optimizer_draw(steps, 0, v));
        quadratic_product(NULL, (const void *[]){y}, (const void *[]){v}, &loss, (void *[]){g}, (void *[]){h});
        bool wants = psgd_optimizer_wants_product(steps);
        assert_int_equal(wants, k % 2 == 0);
        assert_ok(psgd_optimizer_step(steps, (void *[]){y}, (const void *[]){g}, wants ? (const void *[]){v} : NULL,
                                      wants ? (const void *[]){h} : NULL));
    }
    assert_memory_equal(x, y, sizeof x);
    psgd_optimizer_free(closure);
    psgd_optimizer_free(steps);
}

static void what_is_not_finite_is_skipped_counted_and_stops_in_the_end(void **state)
{
    (void)state;
    double x[] = {1, 2};
    psgd_optimizer *o = make_two("psgd", WITH("max-skipped", "2", "group", "tri"));
    double ones[] = {1, 1}, bad[] = {1, NAN};
    const void *good_list[] = {ones}, *bad_list[] = {bad};
    assert_ok(psgd_optimizer_step(o, (void *[]){x}, good_list, good_list, bad_list));
    assert_non_null(strstr(psgd_optimizer_note(o), "Hessian-vector product of tensor 0"));
    assert_ok(psgd_optimizer_step(o, (void *[]){x}, bad_list, good_list, good_list));
    assert_int_equal(psgd_optimizer_skipped(o), 2);
    assert_float_equal(x[1], 2, 0);
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(o, 0)), 0);
    assert_fails(psgd_optimizer_step(o, (void *[]){x}, bad_list, good_list, good_list), PSGD_ERR_NOT_FINITE,
                 "3 steps in a row were skipped");
    assert_ok(psgd_optimizer_step(o, (void *[]){x}, good_list, good_list, good_list));
    assert_ok(psgd_optimizer_step(o, (void *[]){x}, bad_list, good_list, good_list));
    assert_int_equal(psgd_optimizer_skipped(o), 4);
    psgd_optimizer_free(o);
}

static void steps_never_leave_the_number_type(void **state)
{
    (void)state;
    static const char *const methods[] = {"sgd", "momentum", "nesterov", "psgd"};
    for (int m = 0; m < 4; m++) {
        float x[] = {1, 1}, g[] = {3e38f, 1};
        psgd_optimizer *o = make(methods[m], PSGD_F32, &vector, 1, WITH("lr", "10", "criterion", "fisher"));
        for (int k = 0; k < 5; k++) {
            assert_ok(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){g}, NULL, NULL));
        }
        assert_true(isfinite(x[0]) && isfinite(x[1]));
        psgd_optimizer_free(o);
    }
}

static void a_failing_closure_is_reported(void **state)
{
    (void)state;
    int code = 7;
    double x[] = {1, 2};
    psgd_objective objective = {.gradient = quadratic, .data = &code};
    psgd_optimizer *o = make_two("sgd", NOTHING);
    assert_fails(psgd_optimizer_iterate(o, (void *[]){x}, NULL), PSGD_ERR_ARGUMENT, "psgd_optimizer_bind");
    assert_ok(psgd_optimizer_bind(o, &objective));
    assert_fails(psgd_optimizer_iterate(o, (void *[]){x}, NULL), PSGD_ERR_CALLBACK, "failure 7");
    assert_int_equal(psgd_optimizer_steps(o), 0);
    psgd_optimizer_free(o);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *method, *name, *value, *words;
    } bad[] = {
        {"adamm", "lr", "1", "did you mean adam?"},
        {"sgd", "learning-rate", "1", "there is no option learning-rate"},
        {"sgd", "momentun", "0.9", "did you mean momentum?"},
        {"psgd", "step", "1", "must be below 1"},
        {"psgd", "damping", "-1", "at least 0"},
        {"psgd", "damping", "1", "belongs to the fisher criterion"},
        {"psgd", "group", "tri(2)", "tensor 0"},
        {"psgd", "apply", "inverse-fisher", "unbiased"},
        {"psgd", "whiten", "momentum", "momentum above 0"},
        {"sgd", "lr", "-1", "at least 0"},
        {"sgd", "lr", "nan", "finite number"},
        {"sgd", "momentum", "1", "below 1"},
        {"sgd", "update-every", "0", "at least 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        psgd_options *options;
        psgd_optimizer *o;
        assert_ok(psgd_options_create(NULL, &options));
        assert_ok(psgd_options_set(options, "defaults", "paper"));
        assert_ok(psgd_options_set(options, bad[i].name, bad[i].value));
        psgd_status status = psgd_optimizer_create(NULL, bad[i].method, 1, &vector, PSGD_F64, options, &o);
        if (status == PSGD_OK || !strstr(psgd_last_error(), bad[i].words)) {
            fail_msg("%s %s: status %d, %s", bad[i].name, bad[i].value, status, psgd_last_error());
        }
        assert_null(o);
        psgd_options_free(options);
    }
    psgd_optimizer *o;
    psgd_tensor none = {.ndim = 1, .shape = (const int64_t[]){0}};
    assert_fails(psgd_optimizer_create(NULL, "sgd", 1, &none, PSGD_F64, NULL, &o), PSGD_ERR_ARGUMENT, "size 0");
    psgd_tensor misfit = {.spec = "kron(tri,tri,tri)", .ndim = 2, .shape = matrix};
    assert_int_not_equal(psgd_optimizer_create(NULL, "psgd", 1, &misfit, PSGD_F64, NULL, &o), PSGD_OK);
    assert_fails(psgd_optimizer_create(NULL, "sgd", 0, &none, PSGD_F64, NULL, &o), PSGD_ERR_ARGUMENT, "one tensor");

    double x[] = {1, 1};
    o = make_two("psgd", NOTHING);
    assert_fails(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){x}, NULL, NULL), PSGD_ERR_ARGUMENT,
                 "needs v and h");
    assert_fails(psgd_optimizer_step(o, (void *[]){x}, NULL, NULL, NULL), PSGD_ERR_ARGUMENT, "list of gradients");
    assert_fails(psgd_optimizer_draw(o, 1, x), PSGD_ERR_ARGUMENT, "not 1");
    psgd_optimizer_free(o);
    o = make_two("lbfgs", NOTHING);
    assert_fails(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){x}, NULL, NULL), PSGD_ERR_UNSUPPORTED,
                 "psgd_optimizer_iterate");
    psgd_optimizer_free(o);
}

static void a_step_does_not_allocate(void **state)
{
    (void)state;
    for (int i = 0; psgd_method_name(i); i++) {
        counting c = {.fail_at = -1};
        psgd_allocator allocator = {.allocate = counting_allocate, .release = counting_release, .data = &c};
        psgd_context *context;
        psgd_optimizer *o;
        psgd_tensor tensor = {.spec = "kron(tri,tri)", .ndim = 2, .shape = (const int64_t[]){1, 2}};
        psgd_objective objective = {.gradient = quadratic, .product = quadratic_product};
        double x[] = {1, 1};
        assert_ok(psgd_context_create(&allocator, &context));
        assert_ok(psgd_optimizer_create(context, psgd_method_name(i), 1, &tensor, PSGD_F64, NULL, &o));
        assert_ok(psgd_optimizer_bind(o, &objective));
        int64_t made = c.made;
        c.fail_at = made;
        for (int k = 0; k < 300; k++) assert_ok(psgd_optimizer_iterate(o, (void *[]){x}, NULL));
        assert_int_equal(c.made, made);
        psgd_optimizer_free(o);
        psgd_context_free(context);
        assert_int_equal(c.outstanding, 0);
    }
}

static void a_failed_allocation_leaks_nothing(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 40; n++) {
        counting c = {.fail_at = n};
        psgd_allocator allocator = {.allocate = counting_allocate, .release = counting_release, .data = &c};
        psgd_context *context;
        psgd_optimizer *o;
        psgd_tensor tensors[] = {{.spec = "kron(tri,tri)", .ndim = 2, .shape = matrix}, vector};
        if (psgd_context_create(&allocator, &context) != PSGD_OK) continue;
        psgd_status status = psgd_optimizer_create(context, "psgd", 2, tensors, PSGD_F32, NULL, &o);
        if (status != PSGD_OK) assert_int_equal(status, PSGD_ERR_NO_MEMORY);
        psgd_optimizer_free(o);
        psgd_context_free(context);
        assert_int_equal(c.outstanding, 0);
    }
}

static const char state_path[] = "test_optim.state";

static void iterate(psgd_optimizer *o, double *x, int steps)
{
    psgd_objective objective = {.gradient = quadratic, .product = quadratic_product};
    assert_ok(psgd_optimizer_bind(o, &objective));
    for (int k = 0; k < steps; k++) assert_ok(psgd_optimizer_iterate(o, (void *[]){x}, NULL));
}

static void training_resumes_bit_for_bit(void **state)
{
    (void)state;
    for (int i = 0; psgd_method_name(i); i++) {
        double x[] = {1, 1}, y[2];
        list with = WITH("lr", "0.003", "group", "tri", "momentum", "0.5", "update-probability", "0.5");
        psgd_optimizer *whole = make_two(psgd_method_name(i), with), *again = make_two(psgd_method_name(i), with);
        iterate(whole, x, 137);
        memcpy(y, x, sizeof x);
        if (i % 2) {
            assert_ok(psgd_optimizer_save(whole, state_path));
            assert_ok(psgd_optimizer_load(again, state_path));
        } else {
            int64_t bytes = psgd_optimizer_state_bytes(whole);
            char *memory = malloc((size_t)bytes);
            assert_ok(psgd_optimizer_state_save(whole, memory));
            assert_int_equal(psgd_optimizer_state_load(again, bytes - 1, memory), PSGD_ERR_FORMAT);
            assert_ok(psgd_optimizer_state_load(again, bytes, memory));
            free(memory);
        }
        assert_int_equal(psgd_optimizer_steps(again), 137);
        iterate(whole, x, 50);
        iterate(again, y, 50);
        assert_memory_equal(x, y, sizeof x);
        psgd_optimizer_free(whole);
        psgd_optimizer_free(again);
    }
    unlink(state_path);
}

static void write_bytes(const char *bytes, size_t count)
{
    FILE *file = fopen(state_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

static void damaged_and_foreign_state_is_refused(void **state)
{
    (void)state;
    double x[] = {1, 1}, before[4], after[4];
    psgd_optimizer *o = make_two("psgd", WITH("group", "tri"));
    iterate(o, x, 20);
    assert_ok(psgd_optimizer_save(o, state_path));
    assert_ok(psgd_precond_factor(psgd_optimizer_precond(o, 0), 0, before));

    static char bytes[65536];
    FILE *file = fopen(state_path, "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t cut = 0; cut < count; cut += cut < 64 ? 1 : 97) {
        write_bytes(bytes, cut);
        assert_int_equal(psgd_optimizer_load(o, state_path), PSGD_ERR_FORMAT);
    }
    for (size_t at = 0; at < count; at += 41) {
        bytes[at] ^= 1;
        write_bytes(bytes, count);
        assert_int_equal(psgd_optimizer_load(o, state_path), PSGD_ERR_FORMAT);
        bytes[at] ^= 1;
    }
    write_bytes("a text of somebody else", 23);
    assert_fails(psgd_optimizer_load(o, state_path), PSGD_ERR_FORMAT, "not the state of an optimizer");
    assert_fails(psgd_optimizer_load(o, "/nowhere/at/all"), PSGD_ERR_IO, "cannot open");

    write_bytes(bytes, count);
    psgd_optimizer *others[] = {make_two("sgd", NOTHING), make_two("psgd", WITH("group", "diag")),
                                make_two("psgd", WITH("group", "tril")),
                                make_two("psgd", WITH("group", "tri", "momentum", "0.5")),
                                make("psgd", PSGD_F32, &vector, 1, WITH("group", "tri"))};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(psgd_optimizer_load(others[i], state_path), PSGD_ERR_FORMAT);
        assert_int_equal(psgd_optimizer_steps(others[i]), 0);
        psgd_optimizer_free(others[i]);
    }
    assert_ok(psgd_precond_factor(psgd_optimizer_precond(o, 0), 0, after));
    assert_memory_equal(before, after, sizeof before);
    assert_ok(psgd_optimizer_load(o, state_path));
    assert_fails(psgd_optimizer_save(o, "/nowhere/at/all"), PSGD_ERR_IO, "/nowhere");
    psgd_optimizer_free(o);
    unlink(state_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_come_as_often_as_set),
        cmocka_unit_test(every_method_lowers_a_quadratic),
        cmocka_unit_test(drawn_v_depends_on_seed_step_and_tensor_alone),
        cmocka_unit_test(both_ways_in_are_the_same),
        cmocka_unit_test(what_is_not_finite_is_skipped_counted_and_stops_in_the_end),
        cmocka_unit_test(steps_never_leave_the_number_type),
        cmocka_unit_test(a_failing_closure_is_reported),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(a_step_does_not_allocate),
        cmocka_unit_test(a_failed_allocation_leaks_nothing),
        cmocka_unit_test(training_resumes_bit_for_bit),
        cmocka_unit_test(damaged_and_foreign_state_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
