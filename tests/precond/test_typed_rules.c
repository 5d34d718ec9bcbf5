/* Single updates of every rule against the dense reference, over the self-adjoint groups of the registry and random
 * nestings of them: both criteria, several pairs, v integrated out. */
#include "norm_estimate.h"
#include "reference.h"
#include "specs.h"
#include "support.h"

#include "core/dtype.h"

#include <float.h>

/* Relative to the largest entry of Q. f32: a hundred roundings of a well-conditioned update. */
static const double TOLERANCE = REAL_EPSILON > 1e-10 ? 1e-5 : 1e-12;

enum { RULES = 5, PAIRS = 3 };
static const char *const rule_names[RULES] = {"eq", "qeq", "pro", "quad", "qep"};

typedef struct trial {
    const char *spec;
    int ndim;
    const int64_t *shape;
    ref_rule rule;
    bool fisher, integrate;
    double damping, step;
    int64_t pairs, count;
} trial;

static psgd_precond *make(const trial *t)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "rule", rule_names[t->rule]));
    assert_ok(psgd_options_set(options, "norm", "second"));
    assert_ok(psgd_options_set(options, "criterion", t->fisher ? "fisher" : "newton"));
    assert_ok(psgd_options_set(options, "integrate", t->integrate ? "yes" : "no"));
    assert_ok(psgd_options_set_number(options, "damping", t->damping));
    assert_ok(psgd_options_set_number(options, "step", t->step));
    assert_ok(psgd_options_set_number(options, "pairs", (double)t->pairs));
    assert_ok(psgd_precond_create(NULL, t->spec, t->ndim, t->shape, REAL_DTYPE, options, &precond));
    psgd_options_free(options);
    return precond;
}

/* The whole Q, n x n: Q times the columns of I. */
static double *whole(const psgd_precond *precond)
{
    int64_t n = psgd_precond_size(precond);
    double *Q = calloc((size_t)(n * n), sizeof(double));
    real *x = calloc((size_t)n, sizeof(real));
    for (int64_t j = 0; j < n; j++) {
        memset(x, 0, (size_t)n * sizeof(real));
        x[j] = 1;
        assert_ok(psgd_precond_apply(precond, PSGD_APPLY_Q, x, x));
        for (int64_t i = 0; i < n; i++) Q[i * n + j] = (double)x[i];
    }
    free(x);
    return Q;
}

/* The images of h and v under the whole Q: Qh and Q^-T v, or Ph and v. Where v is integrated out, the matrices that it
 * would be multiplied by stand for its expectation. */
static void form(const trial *t, int64_t n, const double *Q, const double *H, const double *V, double *A, double *B)
{
    int64_t ka = t->count + (t->integrate ? n : 0), kb = t->integrate ? n : t->count;
    double *M = calloc((size_t)(n * n), sizeof(double)), *N = calloc((size_t)(n * n), sizeof(double));
    double *T = calloc((size_t)(n * n), sizeof(double)),
           *image = calloc((size_t)(n * n + n * t->count), sizeof(double));
    double root = sqrt((double)t->count);
    if (t->rule == REF_EQ) {
        memcpy(M, Q, (size_t)(n * n) * sizeof(double));
        assert_true(ref_invert(n, Q, T));
        ref_transpose(n, n, T, N);
    } else {
        ref_transpose(n, n, Q, T);
        ref_multiply(n, n, n, T, Q, M);
        for (int64_t i = 0; i < n; i++) N[i * n + i] = 1;
    }
    ref_multiply(n, n, t->count, M, H, image);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t p = 0; p < t->count; p++) A[i * ka + p] = image[i * t->count + p];
        for (int64_t j = 0; t->integrate && j < n; j++) {
            A[i * ka + t->count + j] = root * t->damping * M[i * n + j];
            B[i * kb + j] = root * N[i * n + j];
        }
    }
    if (!t->integrate) ref_multiply(n, n, t->count, N, V, B);
    free(M);
    free(N);
    free(T);
    free(image);
}

static void compare(const trial *t, int64_t n, const double *expected, const double *after)
{
    double max = 0, worst = 0;
    for (int64_t k = 0; k < n * n; k++) {
        max = fmax(max, fabs(expected[k]));
        worst = fmax(worst, fabs(expected[k] - after[k]));
    }
    if (worst <= TOLERANCE * max) return;
    print_error("%s, rule %s, %s%s, %lld of %lld pairs, damping %g, shape", t->spec, rule_names[t->rule],
                t->fisher ? "fisher" : "newton", t->integrate ? ", integrate" : "", (long long)t->count,
                (long long)t->pairs, t->damping);
    for (int k = 0; k < t->ndim; k++) print_error(" %lld", (long long)t->shape[k]);
    print_error(": Q is off by %g of %g\n", worst, max);
    fail();
}

/* One update by both; the reference starts from the library's Q. */
static void update_both(const trial *t, psgd_precond *precond, ref_node *tree, const real *v, const real *h, bool check)
{
    int64_t n = psgd_precond_size(precond), ka = t->count + (t->integrate ? n : 0), kb = t->integrate ? n : t->count;
    double *H = calloc((size_t)(n * t->count), sizeof(double)), *V = calloc((size_t)(n * t->count), sizeof(double));
    double *A = calloc((size_t)(n * ka), sizeof(double)), *B = calloc((size_t)(n * kb), sizeof(double));
    double *expected = calloc((size_t)(n * n), sizeof(double)), *Q = whole(precond);
    for (int64_t p = 0; p < t->count; p++) {
        for (int64_t i = 0; i < n; i++) {
            V[i * t->count + p] = (double)v[p * n + i];
            H[i * t->count + p] = (double)h[p * n + i] + (t->integrate ? 0 : t->damping * (double)v[p * n + i]);
        }
    }
    estimate_data estimate = {.updates = psgd_precond_updates(precond), .pairs = t->pairs, .integrate = t->integrate};
    ref_options options = {.norm = REF_SECOND,
                           .step = t->step,
                           .count = t->count,
                           .rule = t->rule,
                           .estimate = estimate_norm,
                           .data = &estimate};
    form(t, n, Q, H, V, A, B);
    ref_move(tree, Q, A, ka, B, kb, &options, expected);
    assert_ok(psgd_precond_update_pairs(precond, t->count, t->integrate ? NULL : v, h));
    double *after = whole(precond);
    if (check) compare(t, n, expected, after);
    assert_int_equal(psgd_precond_skipped(precond), 0);
    free(H);
    free(V);
    free(A);
    free(B);
    free(expected);
    free(Q);
    free(after);
}

static void run(const trial *t, uint64_t seed, int warm, int checked)
{
    psgd_precond *precond = make(t);
    ref_node *tree = ref_parse(t->spec, t->ndim, t->shape);
    int64_t n = psgd_precond_size(precond);
    real *v = calloc((size_t)(n * t->count), sizeof(real)), *h = calloc((size_t)(n * t->count), sizeof(real));
    for (int k = 0; k < warm + checked; k++) {
        for (int64_t i = 0; i < n * t->count; i++) {
            v[i] = (real)random_normal(&seed);
            h[i] = (real)((0.5 + (double)(i % n) / (double)n) * random_normal(&seed));
        }
        update_both(t, precond, tree, v, h, k >= warm);
    }
    free(v);
    free(h);
    ref_free(tree);
    psgd_precond_free(precond);
}

/* All of these are closed under products and transposition. One fibre to four take the low-rank code. */
static const instance self_adjoint[] = {
    {"identity", "identity", 1, {3}},
    {"identity", "kron(identity,dense)", 2, {3, 4}},
    {"scale", "scale", 1, {5}},
    {"scale", "kron(scale,dense)", 2, {6, 5}},
    {"diag", "diag", 1, {7}},
    {"diag", "kron(diag,diag)", 2, {5, 3}},
    {"diag", "kron(dense,diag)", 2, {9, 7}},
    {"dense", "dense", 1, {1}},
    {"dense", "dense", 1, {6}},
    {"dense", "kron(dense,dense)", 2, {3, 2}},
    {"dense", "kron(dense,dense)", 2, {9, 11}},
    {"dense", "kron(dense,dense,dense)", 3, {5, 4, 3}},
    {"xmat", "xmat", 1, {6}},
    {"xmat", "xmat", 1, {7}},
    {"xmat", "kron(xmat,xmat)", 2, {4, 5}},
    {"xmat", "kron(xmat,dense)", 2, {5, 6}},
    {"sum", "sum(diag:2,dense:3,scale:2)", 1, {7}},
    {"sum", "sum(dense:3,sum(xmat:5,identity:2))", 2, {2, 5}},
    {"kron", "sum(kron(dense:3,dense:4),diag:5)", 1, {17}},
    {"kron", "kron(sum(dense:4,diag:3),dense)", 2, {7, 5}},
    {"t", "t(kron(dense,t(xmat)))", 2, {4, 6}},
};

static void self_adjoint_groups_update_as_the_reference(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof self_adjoint / sizeof self_adjoint[0]; i++) {
        const instance *g = &self_adjoint[i];
        for (int rule = 0; rule < RULES; rule++) {
            if (rule == REF_QEP && g->spec[0] == 's' && strstr(g->spec, "kron")) continue; /* see ref_move */
            trial t = {.spec = g->spec,
                       .ndim = g->ndim,
                       .shape = g->shape,
                       .rule = (ref_rule)rule,
                       .pairs = 1,
                       .count = 1,
                       .step = 0.1};
            run(&t, next_random(&seed), 6, 3);
            t.fisher = true;
            t.damping = 0.5;
            run(&t, next_random(&seed), 4, 2);
            t.integrate = true;
            run(&t, next_random(&seed), 4, 2);
            t.damping = 0;
            run(&t, next_random(&seed), 4, 2);
            t.integrate = t.fisher = false;
            t.pairs = t.count = PAIRS;
            run(&t, next_random(&seed), 4, 2);
            t.pairs = 6;
            t.count = 4;
            run(&t, next_random(&seed), 4, 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_adjoint_groups_update_as_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
