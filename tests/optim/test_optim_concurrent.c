/* Small tensors of one optimizer run concurrently; the results do not depend on it. */
#include "support.h"

#include "la/pool.h"
#include "optim/optim.h"
#include "precond/precond.h"

#include <math.h>

enum { PARTS = 9, HEAVY = 3, LARGE = 4, STEPS = 25, MAX = 3 };

static const char *const specs[PARTS] = {"diag", "tri",    "scan",   "kron(tri,tri)", "scan", "kron(dense,t(tri))",
                                         "xmat", "lra(2)", "splu(2)"};
static const int64_t shapes[PARTS][2] = {{1, 1}, {2, 3}, {12, 17}, {110, 131}, {300, 301},
                                         {9, 5}, {7, 7}, {4, 11},  {8, 3}};

static const char *const settings[][14] = {
    {"lr", "0.1"},
    {"lr", "0.1", "l2", "0.2", "momentum", "0.5", "pairs", "3", "clip", "1"},
    {"lr", "0.01", "criterion", "fisher"},
    {"lr", "0.01", "criterion", "fisher", "l2", "0.3", "momentum", "0.9", "update-every", "2"},
};

typedef struct problem {
    void *x[PARTS], *g[PARTS], *v[PARTS], *h[PARTS];
} problem;

static int64_t size_of(int i)
{
    return shapes[i][0] * shapes[i][1];
}

/* The Hessian is diag(1, 2, ..., 10, 1, ...) and a little of a coupling of neighbours. */
static void product(int64_t n, const double *v, double *h)
{
    for (int64_t i = 0; i < n; i++) h[i] = (double)(1 + i % 10) * v[i] + 0.1 * v[i > 0 ? i - 1 : 0];
}

static psgd_optimizer *create(const char *const *set)
{
    psgd_tensor tensors[PARTS];
    for (int i = 0; i < PARTS; i++) tensors[i] = (psgd_tensor){.ndim = 2, .shape = shapes[i], .spec = specs[i]};
    psgd_options *options;
    psgd_optimizer *optimizer;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    for (int i = 0; set[i]; i += 2) assert_ok(psgd_options_set(options, set[i], set[i + 1]));
    assert_ok(psgd_optimizer_create(NULL, "psgd", PARTS, tensors, PSGD_F64, options, &optimizer));
    psgd_options_free(options);
    return optimizer;
}

static void step(psgd_optimizer *optimizer, problem *p)
{
    for (int i = 0; i < PARTS; i++) product(size_of(i), p->x[i], p->g[i]);
    if (psgd_optimizer_wants_product(optimizer)) {
        int64_t pairs = optimizer->settings.fit.pairs;
        for (int i = 0; i < PARTS; i++) {
            assert_ok(psgd_optimizer_draw(optimizer, i, p->v[i]));
            for (int64_t k = 0; k < pairs; k++) {
                product(size_of(i), (double *)p->v[i] + k * size_of(i), (double *)p->h[i] + k * size_of(i));
            }
        }
    }
    assert_ok(psgd_optimizer_step(optimizer, p->x, (const void *const *)p->g, (const void *const *)p->v,
                                  (const void *const *)p->h));
}

/* Returns the number of fits. */
static int64_t run(int threads, const char *const *set, problem *p)
{
    for (int i = 0; i < PARTS; i++) {
        int64_t n = size_of(i);
        p->x[i] = calloc((size_t)n, sizeof(double));
        p->g[i] = calloc((size_t)n, sizeof(double));
        p->v[i] = calloc((size_t)n * MAX, sizeof(double));
        p->h[i] = calloc((size_t)n * MAX, sizeof(double));
        assert_ok(psgd_normal_fill(PSGD_F64, 5, (uint64_t)i, 0, 0, n, p->x[i]));
    }
    assert_ok(psgd_set_threads(threads));
    psgd_optimizer *optimizer = create(set);
    assert_int_equal(optimizer->work.stride > 0, threads > 1);
    for (int i = 0; i < PARTS; i++) {
        const psgd_precond *precond = optimizer->parts[i].precond;
        if (threads > 1) assert_int_equal(psgd__precond_concurrent(precond), i != LARGE);
        assert_int_equal(psgd__precond_is_heavy(precond), i == HEAVY);
    }
    for (int k = 0; k < STEPS; k++) step(optimizer, p);
    int64_t fits = optimizer->now.fits;
    assert_ok(psgd_set_threads(1)); /* fewer than when it was created */
    step(optimizer, p);
    psgd_optimizer_free(optimizer);
    return fits;
}

static void release(problem *p)
{
    for (int i = 0; i < PARTS; i++) {
        free(p->x[i]);
        free(p->g[i]);
        free(p->v[i]);
        free(p->h[i]);
    }
}

/* The same bit-for-bit: one thread does each small tensor either way, or takes parts of its products; the large one has
 * no BLAS in it. */
static void steps_do_not_depend_on_it(void **state)
{
    (void)state;
    int threads = psgd_threads();
    for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
        problem one, many;
        int64_t fits = run(1, settings[k], &one);
        assert_int_equal(run(3, settings[k], &many), fits);
        assert_true(fits >= PARTS * STEPS / 2);
        for (int i = 0; i < PARTS; i++) {
            const double *a = one.x[i], *b = many.x[i];
            for (int64_t j = 0; j < size_of(i); j++) {
                if (a[j] != b[j]) {
                    fail_msg("settings %zu, tensor %d, number %lld: %.17g and %.17g", k, i, (long long)j, a[j], b[j]);
                }
            }
        }
        release(&one);
        release(&many);
    }
    assert_ok(psgd_set_threads(threads));
}

/* Where threads could not help, a tensor with as much work must not wait for the one before it. */
static void only_shared_products_make_a_tensor_heavy(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int64_t shape[2];
        bool heavy;
    } all[] = {
        {"kron(tri,tri)", {120, 257}, true}, {"kron(dense,dense)", {90, 110}, true},
        {"kron(tri,tri)", {84, 121}, false}, {"lra(20)", {150, 200}, false},
        {"splu(30)", {150, 200}, false},     {"tri", {1, 2000}, false},
        {"scan", {250, 260}, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        psgd_precond *precond;
        assert_ok(psgd_precond_create(NULL, all[i].spec, 2, all[i].shape, PSGD_F32, NULL, &precond));
        assert_int_equal(psgd__precond_is_heavy(precond), all[i].heavy);
        psgd_precond_free(precond);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_do_not_depend_on_it),
        cmocka_unit_test(only_shared_products_make_a_tensor_heavy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
