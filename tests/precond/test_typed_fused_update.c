/* Whole updates by fused ops against those by plain ops: the same Q, the same answers to bad input, whatever the number
 * of threads. tests/group/test_typed_fused.c compares the ops one by one. */
#include "support.h"

#include <float.h>

#include "group/group.h"
#include "precond/precond.h"

typedef struct fused_case {
    const char *spec;
    int ndim;
    int64_t shape[3];
} fused_case;

/* Sizes around the limits where work is split: rows in threes and short ones, stretches of columns, parts, threads,
 * streaming stores. */
static const fused_case cases[] = {
    {"diag", 1, {1}},
    {"diag", 1, {1000}},
    {"diag", 1, {40001}},
    {"xmat", 1, {2}},
    {"xmat", 1, {1}},
    {"xmat", 1, {999}},
    {"xmat", 1, {70002}},
    {"scan", 2, {1, 2}},
    {"scan", 2, {2, 1}},
    {"scan", 2, {7, 5}},
    {"scan", 2, {130, 300}},
    {"scan", 2, {75, 700}},
    {"kron(diag,t(norm))", 2, {70, 601}},
    {"kron(diag,diag)", 2, {67, 600}},
    {"scan", 2, {6, 9000}},
    {"kron(diag,diag)", 2, {129, 260}},
    {"kron(diag,t(norm))", 2, {66, 501}},
    {"kron(identity,bnorm)", 2, {33, 17}},
    {"kron(scale,t(bnorm))", 2, {21, 40}},
    {"kron(diag,scale)", 2, {40, 11}},
    {"kron(scale,identity)", 2, {40, 11}},
    {"kron(norm,diag)", 2, {12, 9}},
    {"tri", 1, {1}},
    {"tri", 1, {63}},
    {"tril", 1, {200}},
    {"tri", 1, {1500}},
    {"kron(tri,tri)", 2, {70, 130}},
    {"kron(tril,diag)", 2, {150, 9}},
};

enum { CASES = sizeof cases / sizeof cases[0] };

static const char *const norms[] = {"max", "spectral", "second", "none"};

static int64_t size_of(const fused_case *c)
{
    int64_t n = 1;
    for (int i = 0; i < c->ndim; i++) n *= c->shape[i];
    return n;
}

static psgd_precond *create(const fused_case *c, const char *norm, double damping, bool plain)
{
    psgd_options *options;
    psgd_precond *p;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set_number(options, "step", strcmp(norm, "none") ? 0.1 : 1e-7));
    if (damping > 0) {
        assert_ok(psgd_options_set(options, "criterion", "fisher"));
        assert_ok(psgd_options_set_number(options, "damping", damping));
    }
    assert_ok(psgd_precond_create(NULL, c->spec, c->ndim, c->shape, REAL_DTYPE, options, &p));
    psgd_options_free(options);
    if (plain) ((group *)p->root)->fused = NULL;
    return p;
}

static real *normals(uint64_t tensor, uint64_t step, int64_t n)
{
    real *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    assert_ok(psgd_normal_fill(REAL_DTYPE, 99, tensor, step, 0, n, x));
    return x;
}

static void train(psgd_precond *p, int updates)
{
    int64_t n = psgd_precond_size(p);
    for (int i = 0; i < updates; i++) {
        real *v = normals(0, (uint64_t)i, n), *h = normals(1, (uint64_t)i, n);
        for (int64_t j = 0; j < n; j++) h[j] *= (real)(1 + (double)(j % 5));
        assert_ok(psgd_precond_update(p, v, h));
        free(v);
        free(h);
    }
}

static real *applied(const psgd_precond *p, psgd_operator what)
{
    int64_t n = psgd_precond_size(p);
    real *x = normals(2, 0, n);
    assert_ok(psgd_precond_apply(p, what, x, x));
    return x;
}

static double largest(int64_t n, const real *x)
{
    double max = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, fabs((double)x[i]));
    return max;
}

/* Sums of up to a few thousand terms in another order, and 8 updates that build on each other: 1000 epsilon of the
 * largest entry. */
static void assert_near(int64_t n, const real *got, const real *want, const fused_case *c, const char *norm)
{
    double room = 1000 * (double)REAL_EPSILON * largest(n, want);
    for (int64_t i = 0; i < n; i++) {
        if (fabs((double)got[i] - (double)want[i]) <= room) continue;
        print_error("%s with %s: entry %lld is %.9g, not %.9g\n", c->spec, norm, (long long)i, (double)got[i],
                    (double)want[i]);
        fail();
    }
}

static void fused_and_plain_agree(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        bool slow = cases[i].ndim == 1 && strstr(cases[i].spec, "tri") && cases[i].shape[0] > 1000;
        for (int m = 0; m < (slow ? 1 : 4); m++) {
            double damping = m % 2 ? 0.3 : 0;
            psgd_precond *fused = create(&cases[i], norms[m], damping, false);
            psgd_precond *plain = create(&cases[i], norms[m], damping, true);
            int64_t n = size_of(&cases[i]);
            train(fused, 8);
            train(plain, 8);
            for (int what = PSGD_APPLY_P; what <= PSGD_APPLY_QT_INVERSE; what++) {
                real *got = applied(fused, (psgd_operator)what), *want = applied(plain, (psgd_operator)what);
                assert_near(n, got, want, &cases[i], norms[m]);
                free(got);
                free(want);
            }
            assert_int_equal(psgd_precond_skipped(fused), psgd_precond_skipped(plain));
            psgd_precond_free(fused);
            psgd_precond_free(plain);
        }
    }
}

static void in_place_and_out_of_place_agree(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        psgd_precond *p = create(&cases[i], "max", 0, false);
        int64_t n = size_of(&cases[i]);
        train(p, 3);
        real *in_place = applied(p, PSGD_APPLY_P), *x = normals(2, 0, n), *y = calloc((size_t)n, sizeof *y);
        assert_ok(psgd_precond_apply(p, PSGD_APPLY_P, x, y));
        assert_near(n, y, in_place, &cases[i], "apply");
        free(in_place);
        free(x);
        free(y);
        psgd_precond_free(p);
    }
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    int threads = psgd_threads();
    for (int i = 0; i < CASES; i++) {
        if (strstr(cases[i].spec, "kron(tri")) continue; /* BLAS splits its sums as it likes */
        int64_t n = size_of(&cases[i]);
        real *want = NULL;
        for (int count = 1; count <= 3; count++) {
            assert_ok(psgd_set_threads(count));
            psgd_precond *p = create(&cases[i], "max", 0.1, false);
            train(p, 3);
            real *got = applied(p, PSGD_APPLY_P);
            if (want) assert_memory_equal(got, want, (size_t)n * sizeof *got);
            if (want) free(got);
            if (!want) want = got;
            psgd_precond_free(p);
        }
        free(want);
    }
    assert_ok(psgd_set_threads(threads));
}

/* Whatever is not finite is refused and Q stays; huge and tiny numbers give what the plain path gives. */
static void extremes_are_as_on_the_plain_path(void **state)
{
    (void)state;
    const double scales[] = {1e30, 1e-30, 1e18, 1e-18, 0};
    for (int i = 0; i < CASES; i++) {
        int64_t n = size_of(&cases[i]);
        psgd_precond *fused = create(&cases[i], "max", 0, false), *plain = create(&cases[i], "max", 0, true);
        real *v = normals(3, 0, n), *h = normals(4, 0, n);
        for (int bad = 0; bad < 4; bad++) {
            real *before = applied(fused, PSGD_APPLY_Q), *x = bad % 2 ? v : h, kept = x[n / 2];
            x[n / 2] = bad < 2 ? (real)NAN : (real)INFINITY;
            assert_fails(psgd_precond_update(fused, v, h), PSGD_ERR_NOT_FINITE, bad % 2 ? "v is" : "h is");
            x[n / 2] = kept;
            real *after = applied(fused, PSGD_APPLY_Q);
            assert_memory_equal(after, before, (size_t)n * sizeof *after);
            free(before);
            free(after);
        }
        for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
            real *own = malloc((size_t)n * sizeof *own);
            for (int64_t j = 0; j < n; j++) own[j] = (real)((double)h[j] * scales[s]);
            assert_ok(psgd_precond_update(fused, v, own));
            assert_ok(psgd_precond_update(plain, v, own));
            real *got = applied(fused, PSGD_APPLY_P), *want = applied(plain, PSGD_APPLY_P);
            assert_near(n, got, want, &cases[i], "extremes");
            free(got);
            free(want);
            free(own);
        }
        free(v);
        free(h);
        psgd_precond_free(fused);
        psgd_precond_free(plain);
    }
}

/* An entry of R is small compared with the energy of so many elements, and yet no reason to leave the step out. */
static void long_vectors_are_updated(void **state)
{
    (void)state;
    const fused_case c = {"diag", 1, {1 << 21}};
    int64_t n = c.shape[0];
    real *v = malloc((size_t)n * sizeof *v), *h = malloc((size_t)n * sizeof *h), y;
    for (int64_t i = 0; i < n; i++) {
        v[i] = 1;
        h[i] = (real)1.2;
    }
    for (int plain = 0; plain < 2; plain++) {
        psgd_precond *p = create(&c, "max", 0, plain);
        assert_ok(psgd_precond_update(p, v, h));
        assert_int_equal(psgd_precond_skipped(p), 0);
        real *got = applied(p, PSGD_APPLY_Q), *x = normals(2, 0, n);
        y = (real)(0.9 * (double)x[n - 1]); /* R / max |R| = 1, step 0.1 */
        assert_true(fabs((double)got[n - 1] - (double)y) <= 4 * (double)REAL_EPSILON * fabs((double)y));
        free(got);
        free(x);
        psgd_precond_free(p);
    }
    free(v);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_and_plain_agree),    cmocka_unit_test(in_place_and_out_of_place_agree),
        cmocka_unit_test(threads_do_not_matter),    cmocka_unit_test(extremes_are_as_on_the_plain_path),
        cmocka_unit_test(long_vectors_are_updated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
