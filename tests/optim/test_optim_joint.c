/* The option joint: several tensors as one vector behave as one tensor of all their elements. */
#include "support.h"

#include <unistd.h>

enum { PARTS = 3, N = 15, STEPS = 12 };

static const int64_t sizes[PARTS] = {2, 9, 4}, two[] = {2}, square[] = {3, 3}, flat[] = {4}, all[] = {N};
static const psgd_tensor tensors[PARTS] = {
    {.ndim = 1, .shape = two}, {.ndim = 2, .shape = square}, {.ndim = 1, .shape = flat}};
static const psgd_tensor whole = {.ndim = 1, .shape = all};

typedef struct with {
    const char *pairs[20];
} with;

#define WITH(...) ((with){.pairs = {__VA_ARGS__}})

static psgd_status create(const psgd_context *context, bool joint, const char *group, psgd_dtype dtype, with set,
                          psgd_optimizer **optimizer)
{
    psgd_options *options;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    for (int i = 0; set.pairs[i]; i += 2) assert_ok(psgd_options_set(options, set.pairs[i], set.pairs[i + 1]));
    assert_ok(psgd_options_set(options, "joint", joint ? "yes" : "no"));
    assert_ok(psgd_options_set(options, "group", group));
    psgd_status status = psgd_optimizer_create(context, "psgd", joint ? PARTS : 1, joint ? tensors : &whole, dtype,
                                               options, optimizer);
    psgd_options_free(options);
    return status;
}

static void split(double *x, int pairs, void *parts[PARTS])
{
    for (int i = 0, at = 0; i < PARTS; at += (int)sizes[i++] * pairs) parts[i] = x + at;
}

/* The Hessian of f = sum of i x_i^2 / 2 + (sum x)^2 / 20. */
static void product(int n, const double *v, double *h)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    for (int i = 0; i < n; i++) h[i] = (1 + i) * v[i] + sum / 10;
}

/* v and h of all pairs, [pairs][N], as the joint optimizer wants them: [pairs][size] for each tensor. */
static void deal(int pairs, const double *from, double *to)
{
    for (int i = 0, at = 0; i < PARTS; at += (int)sizes[i++]) {
        for (int k = 0; k < pairs; k++) {
            memcpy(to + at * pairs + k * sizes[i], from + k * N + at, (size_t)sizes[i] * sizeof *to);
        }
    }
}

/* One step of both from the same point and gradient; where products are wanted, with the v that each draws. */
static void step(psgd_optimizer *joint, psgd_optimizer *one, int pairs, double *x, double *y)
{
    enum { MAX = 3 };
    double g[N], gy[N], v[MAX * N], h[MAX * N], dealt_v[MAX * N], dealt_h[MAX * N], drawn[MAX * N];
    void *x_parts[PARTS], *g_parts[PARTS], *v_parts[PARTS], *h_parts[PARTS], *drawn_parts[PARTS];
    split(x, 1, x_parts);
    split(g, 1, g_parts);
    split(dealt_v, pairs, v_parts);
    split(dealt_h, pairs, h_parts);
    split(drawn, pairs, drawn_parts);
    product(N, x, g);
    product(N, y, gy);
    assert_int_equal(psgd_optimizer_wants_product(joint), psgd_optimizer_wants_product(one));
    if (psgd_optimizer_wants_product(one)) {
        assert_ok(psgd_optimizer_draw(one, 0, v));
        for (int k = 0; k < pairs; k++) product(N, v + k * N, h + k * N);
        deal(pairs, v, dealt_v);
        deal(pairs, h, dealt_h);
        for (int i = 0; i < PARTS; i++) assert_ok(psgd_optimizer_draw(joint, i, drawn_parts[i]));
        assert_memory_equal(drawn, dealt_v, (size_t)(pairs * N) * sizeof *drawn);
    }
    assert_ok(psgd_optimizer_step(joint, x_parts, (const void *const *)g_parts, (const void *const *)v_parts,
                                  (const void *const *)h_parts));
    assert_ok(psgd_optimizer_step(one, (void *[]){y}, (const void *[]){gy}, (const void *[]){v}, (const void *[]){h}));
}

static void start(double *x)
{
    for (int i = 0; i < N; i++) x[i] = 1 - 0.2 * i;
}

static const with settings[] = {
    {{"lr", "0.1"}},
    {{"lr", "0.1", "pairs", "3", "l2", "0.2", "momentum", "0.5", "nesterov", "yes", "step-schedule", "cosine"}},
    {{"lr", "0.1", "update-every", "3", "clip", "0.1", "decay", "0.1"}},
    {{"lr", "0.01", "criterion", "fisher", "damping", "0.1", "apply", "p2"}},
    {{"lr", "0.01", "criterion", "fisher", "momentum", "0.9", "l2", "0.3"}},
    {{"lr", "0.01", "criterion", "fisher", "momentum", "0.9", "l2", "0.3", "whiten", "momentum", "init", "first"}},
    {{"lr", "0.01", "criterion", "fisher", "unbiased", "yes", "batch", "8", "apply", "inverse-fisher"}},
};

/* To a few roundings: kernels group elements differently where tensors begin elsewhere. */
static void joint_is_one_tensor(void **state)
{
    (void)state;
    static const char *const groups[] = {
        "tri", "dense", "lra(2)", "splu(2)", "xmat", "diag", "sum(tri:4,lra(1):5,diag)"};
    for (size_t s = 0; s < sizeof groups / sizeof groups[0]; s++) {
        for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
            psgd_optimizer *joint, *one;
            double x[N], y[N];
            start(x);
            start(y);
            assert_ok(create(NULL, true, groups[s], PSGD_F64, settings[k], &joint));
            assert_ok(create(NULL, false, groups[s], PSGD_F64, settings[k], &one));
            for (int t = 0; t < STEPS; t++) {
                step(joint, one, k == 1 ? 3 : 1, x, y);
                for (int i = 0; i < N; i++) {
                    if (!(fabs(x[i] - y[i]) <= 1e-12 * (1 + fabs(y[i])))) {
                        fail_msg("%s, settings %zu, step %d: %.17g is not %.17g", groups[s], k, t, x[i], y[i]);
                    }
                }
            }
            const psgd_precond *Q = psgd_optimizer_precond(joint, 0);
            assert_ptr_equal(Q, psgd_optimizer_precond(joint, PARTS - 1));
            assert_int_equal(psgd_precond_segment_count(Q), PARTS);
            assert_int_equal(psgd_precond_size(Q), N);
            assert_int_equal(psgd_precond_updates(Q), psgd_precond_updates(psgd_optimizer_precond(one, 0)));
            psgd_optimizer_free(joint);
            psgd_optimizer_free(one);
        }
    }
}

static int objective_gradient(void *data, const void *const *theta, double *loss, void *const *gradient)
{
    (void)data;
    double x[N], g[N];
    for (int i = 0, at = 0; i < PARTS; at += (int)sizes[i++]) memcpy(x + at, theta[i], (size_t)sizes[i] * sizeof *x);
    product(N, x, g);
    *loss = 0;
    for (int i = 0; i < N; i++) *loss += x[i] * g[i] / 2;
    for (int i = 0, at = 0; i < PARTS; at += (int)sizes[i++]) memcpy(gradient[i], g + at, (size_t)sizes[i] * sizeof *g);
    return 0;
}

/* Differences of gradients give the products, so this takes the whole way of a closure. */
static double minimise(psgd_optimizer *o, double *x, int steps)
{
    psgd_objective objective = {.gradient = objective_gradient};
    void *parts[PARTS];
    double loss = 0;
    split(x, 1, parts);
    assert_ok(psgd_optimizer_bind(o, &objective));
    for (int t = 0; t < steps; t++) assert_ok(psgd_optimizer_iterate(o, parts, &loss));
    return loss;
}

static void a_joint_group_minimises_over_all_tensors(void **state)
{
    (void)state;
    static const char *const groups[] = {"tri", "dense", "lra(3)", "splu(3)", "diag"};
    for (size_t s = 0; s < sizeof groups / sizeof groups[0]; s++) {
        psgd_optimizer *o;
        double x[N];
        start(x);
        with set = WITH("lr", "0.5", "step", "0.2", "init-scale", "0.2");
        assert_ok(create(NULL, true, groups[s], PSGD_F64, set, &o));
        double loss = minimise(o, x, 600);
        if (!(loss < 1e-5)) fail_msg("%s ends at %g", groups[s], loss);
        psgd_optimizer_free(o);
    }
}

static void state_of_a_joint_optimizer_is_restored_to_the_bit(void **state)
{
    (void)state;
    static const char path[] = "test_optim_joint.state";
    static const char *const groups[] = {"tri", "dense", "lra(2)", "splu(2)", "xmat", "diag"};
    with set = WITH("lr", "0.2", "momentum", "0.5", "update-probability", "0.5");
    for (size_t s = 0; s < sizeof groups / sizeof groups[0]; s++) {
        psgd_optimizer *first, *again, *apart;
        double x[N], y[N];
        start(x);
        assert_ok(create(NULL, true, groups[s], PSGD_F64, set, &first));
        assert_ok(create(NULL, true, groups[s], PSGD_F64, set, &again));
        assert_ok(psgd_optimizer_create(NULL, "psgd", PARTS, tensors, PSGD_F64, NULL, &apart));
        minimise(first, x, 33);
        memcpy(y, x, sizeof x);
        assert_ok(psgd_optimizer_save(first, path));
        assert_ok(psgd_optimizer_load(again, path));
        assert_int_equal(psgd_optimizer_load(apart, path), PSGD_ERR_FORMAT);
        minimise(first, x, 20);
        minimise(again, y, 20);
        assert_memory_equal(x, y, sizeof x);
        psgd_optimizer_free(first);
        psgd_optimizer_free(again);
        psgd_optimizer_free(apart);
    }
    unlink(path);
}

static void f32_works_and_what_is_not_finite_is_skipped(void **state)
{
    (void)state;
    psgd_optimizer *o;
    float x[N], g[N];
    void *x_parts[PARTS], *g_parts[PARTS];
    for (int i = 0, at = 0; i < PARTS; at += (int)sizes[i++]) x_parts[i] = x + at, g_parts[i] = g + at;
    for (int i = 0; i < N; i++) x[i] = 1;
    with set = WITH("criterion", "fisher", "lr", "0.01", "step", "0.1");
    assert_ok(create(NULL, true, "lra(3)", PSGD_F32, set, &o));
    for (int t = 0; t < 2000; t++) {
        for (int i = 0; i < N; i++) g[i] = (float)(i + 1) * x[i];
        assert_ok(psgd_optimizer_step(o, x_parts, (const void *const *)g_parts, NULL, NULL));
    }
    for (int i = 0; i < N; i++) assert_true(fabsf(x[i]) < 0.2f);
    int64_t updates = psgd_precond_updates(psgd_optimizer_precond(o, 0));
    float before[N];
    memcpy(before, x, sizeof x);
    g[N - 1] = NAN;
    assert_ok(psgd_optimizer_step(o, x_parts, (const void *const *)g_parts, NULL, NULL));
    assert_memory_equal(x, before, sizeof x);
    assert_int_equal(psgd_optimizer_skipped(o), 1);
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(o, 0)), updates);
    psgd_optimizer_free(o);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    psgd_optimizer *o;
    assert_int_equal(create(NULL, true, "kron(tri,tri)", PSGD_F64, WITH(NULL), &o), PSGD_ERR_SPEC);
    assert_non_null(strstr(psgd_last_error(), "all 3 tensors as one vector"));
    assert_int_equal(create(NULL, true, "lra(1)", PSGD_F64, WITH("integrate", "yes"), &o), PSGD_ERR_UNSUPPORTED);
    assert_non_null(strstr(psgd_last_error(), "leave out the option integrate"));

    psgd_options *options;
    psgd_tensor named[] = {tensors[0], tensors[1]};
    named[1].spec = "tri";
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    assert_ok(psgd_options_set(options, "joint", "yes"));
    assert_fails(psgd_optimizer_create(NULL, "psgd", 2, named, PSGD_F64, options, &o), PSGD_ERR_ARGUMENT,
                 "tensor 1 names the group tri");
    assert_ok(psgd_optimizer_create(NULL, "sgd", 2, named, PSGD_F64, options, &o)); /* has no group to join */
    psgd_optimizer_free(o);
    psgd_options_free(options);
}

static void failed_allocations_leak_nothing_and_steps_make_none(void **state)
{
    (void)state;
    psgd_status status = PSGD_ERR_NO_MEMORY;
    for (int64_t n = 1; status != PSGD_OK; n++) {
        counting c = {.fail_at = n};
        psgd_allocator allocator = {.allocate = counting_allocate, .release = counting_release, .data = &c};
        psgd_context *context;
        psgd_optimizer *o = NULL;
        assert_in_range(n, 1, 100);
        assert_ok(psgd_context_create(&allocator, &context));
        status = create(context, true, "lra(2)", PSGD_F64, WITH("unbiased", "yes", "criterion", "fisher"), &o);
        if (status == PSGD_OK) {
            double x[N], g[N];
            void *x_parts[PARTS], *g_parts[PARTS];
            start(x);
            product(N, x, g);
            split(x, 1, x_parts);
            split(g, 1, g_parts);
            int64_t made = c.made;
            for (int t = 0; t < 200; t++) {
                assert_ok(psgd_optimizer_step(o, x_parts, (const void *const *)g_parts, NULL, NULL));
            }
            assert_int_equal(c.made, made);
        }
        psgd_optimizer_free(o);
        psgd_context_free(context);
        assert_int_equal(c.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joint_is_one_tensor),
        cmocka_unit_test(a_joint_group_minimises_over_all_tensors),
        cmocka_unit_test(state_of_a_joint_optimizer_is_restored_to_the_bit),
        cmocka_unit_test(f32_works_and_what_is_not_finite_is_skipped),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(failed_allocations_leak_nothing_and_steps_make_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
