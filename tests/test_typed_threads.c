/* The same inputs give the same bits: on any number of threads where the library's own loops do the work, on the same
 * number of threads where BLAS does. Sizes are such that the loops are split. */
#include "support.h"

#include "core/dtype.h"

#include <omp.h>

typedef struct subject {
    const char *spec;
    int modes;
    int64_t shape[3];
    bool own; /* no BLAS in it */
} subject;

static const subject subjects[] = {
    {"diag", 1, {200003}, true},
    {"scale", 1, {200003}, true},
    {"norm", 1, {100003}, true},
    {"t(bnorm)", 1, {100003}, true},
    {"xmat", 1, {100001}, true},
    {"tri", 1, {701}, true},
    {"tril", 1, {701}, true},
    {"kron(diag,norm)", 2, {300, 401}, true},
    {"kron(t(norm),diag)", 2, {301, 400}, true},
    {"kron(xmat,diag,scale)", 3, {40, 50, 60}, true},
    {"sum(diag:70000,norm:70000,scale)", 1, {150000}, true},
    {"kron(diag,tri)", 2, {300, 301}, true},
    {"kron(tri,tril)", 2, {257, 129}, true},
    {"kron(dense,dense)", 2, {120, 70}, false},
    {"dense", 1, {130}, false},
    {"block(tri:400,diag:300)", 1, {700}, true},
};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

/* P x after a few updates, on this many threads. */
static real *run(const subject *s, const char *norm, int threads, int64_t *n)
{
    psgd_options *options;
    psgd_precond *precond;
    uint64_t seed = 4;
    omp_set_num_threads(threads);
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set(options, "step", "0.1"));
    assert_ok(psgd_precond_create(NULL, s->spec, s->modes, s->shape, REAL_DTYPE, options, &precond));
    *n = psgd_precond_size(precond);
    real *v = calloc((size_t)*n, sizeof(real)), *h = calloc((size_t)*n, sizeof(real));
    for (int k = 0; k < 3; k++) {
        for (int64_t i = 0; i < *n; i++) {
            v[i] = (real)(random_uniform(&seed) - 0.5);
            h[i] = (real)(random_uniform(&seed) - 0.5);
        }
        assert_ok(psgd_precond_update(precond, v, h));
    }
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, v, v));
    free(h);
    psgd_precond_free(precond);
    psgd_options_free(options);
    return v;
}

static void compare(const subject *s, const char *norm, int threads, int other)
{
    int64_t n, m;
    real *x = run(s, norm, threads, &n), *y = run(s, norm, other, &m);
    if (memcmp(x, y, (size_t)n * sizeof(real))) {
        print_error("%s with %s on %d and %d threads differs\n", s->spec, norm, threads, other);
        fail();
    }
    free(x);
    free(y);
}

static void own_loops_do_not_depend_on_the_threads(void **state)
{
    (void)state;
    static const char *const norms[] = {"max", "spectral", "second"};
    for (int i = 0; i < SUBJECTS; i++) {
        for (int k = 0; k < 3 && subjects[i].own; k++) compare(&subjects[i], norms[k], 1, 2 + k);
    }
}

static void the_same_threads_give_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < SUBJECTS; i++) {
        compare(&subjects[i], "max", 1, 1);
        compare(&subjects[i], "spectral", 2, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_loops_do_not_depend_on_the_threads),
        cmocka_unit_test(the_same_threads_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
