/* Single updates against the dense reference, from a common state: every registered group, random specs and shapes,
 * both criteria, all normalisers, several pairs, v integrated out, the unbiased variant. */
#include "norm_estimate.h"
#include "reference.h"
#include "specs.h"
#include "support.h"

#include "core/dtype.h"

#include <float.h>

/* Relative to the largest entry of Q. f32: a hundred roundings of a well-conditioned update. */
static const double TOLERANCE = REAL_EPSILON > 1e-10 ? 1e-5 : 1e-12;

enum { PAIRS = 3, MAX = 160 };

typedef struct trial {
    const char *spec;
    int ndim;
    const int64_t *shape;
    bool fisher, integrate, unbiased;
    double damping, step, average;
    int64_t pairs, count, batch;
    ref_norm norm;
} trial;

static const char *const norm_names[] = {"max", "spectral", "second", "none", "auto"};

static psgd_precond *make(const trial *t)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "criterion", t->fisher ? "fisher" : "newton"));
    assert_ok(psgd_options_set(options, "norm", norm_names[t->norm]));
    assert_ok(psgd_options_set(options, "integrate", t->integrate ? "yes" : "no"));
    assert_ok(psgd_options_set(options, "unbiased", t->unbiased ? "yes" : "no"));
    assert_ok(psgd_options_set_number(options, "damping", t->damping));
    assert_ok(psgd_options_set_number(options, "step", t->step));
    assert_ok(psgd_options_set_number(options, "pairs", (double)t->pairs));
    assert_ok(psgd_options_set_number(options, "batch", (double)t->batch));
    assert_ok(psgd_options_set_number(options, "average", t->average));
    assert_ok(psgd_precond_create(NULL, t->spec, t->ndim, t->shape, REAL_DTYPE, options, &precond));
    psgd_options_free(options);
    return precond;
}

/* Factor i of Q as doubles. */
static double *factor(const psgd_precond *precond, int i)
{
    int64_t m = psgd_precond_factor_size(precond, i);
    real *typed = malloc((size_t)(m * m) * sizeof(real));
    double *Q = malloc((size_t)(m * m) * sizeof(double));
    assert_ok(psgd_precond_factor(precond, i, typed));
    for (int64_t k = 0; k < m * m; k++) Q[k] = (double)typed[k];
    free(typed);
    return Q;
}

/* The whole Q, n x n. */
static double *whole(const psgd_precond *precond)
{
    int64_t done = 1;
    double *all = calloc(1, sizeof(double));
    all[0] = 1;
    for (int i = 0; i < psgd_precond_factor_count(precond); i++) {
        int64_t m = psgd_precond_factor_size(precond, i);
        double *Q = factor(precond, i), *next = calloc((size_t)(done * m * done * m), sizeof(double));
        ref_kronecker(done, all, m, Q, next);
        done *= m;
        free(all);
        free(Q);
        all = next;
    }
    return all;
}

/* What the criterion makes of h: one column for each pair; row-major n x count from pairs that stand one after another.
 */
static void as_columns(const trial *t, int64_t n, const real *v, const real *h, const double *s, double *H, double *V)
{
    double shrink = 1 - 1 / sqrt((double)t->batch);
    for (int64_t p = 0; p < t->count; p++) {
        for (int64_t i = 0; i < n; i++) {
            double x = (double)h[p * n + i], y = (double)v[p * n + i];
            if (t->unbiased) x -= shrink * s[i];
            if (!t->integrate) x += t->damping * y;
            H[i * t->count + p] = x;
            V[i * t->count + p] = y;
        }
    }
}

typedef struct images {
    double *A, *B;
    int64_t a_count, b_count;
} images;

/* A = Qh and B = Q^-T v; where v is integrated out, lambda Q and Q^-T themselves stand for the expectation. */
static images form(const trial *t, int64_t n, const double *Q, const double *H, const double *V)
{
    double *inverse = calloc((size_t)(n * n), sizeof(double)), *turned = calloc((size_t)(n * n), sizeof(double));
    images m = {.a_count = t->count + (t->integrate ? n : 0), .b_count = t->integrate ? n : t->count};
    double *QH = calloc((size_t)(n * t->count), sizeof(double)), root = sqrt((double)t->count);
    m.A = calloc((size_t)(n * m.a_count), sizeof(double));
    m.B = calloc((size_t)(n * m.b_count), sizeof(double));
    assert_true(ref_invert(n, Q, inverse));
    ref_transpose(n, n, inverse, turned);
    ref_multiply(n, n, t->count, Q, H, QH);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t p = 0; p < t->count; p++) m.A[i * m.a_count + p] = QH[i * t->count + p];
        for (int64_t j = 0; t->integrate && j < n; j++) {
            m.A[i * m.a_count + t->count + j] = root * t->damping * Q[i * n + j];
            m.B[i * n + j] = root * turned[i * n + j];
        }
    }
    if (!t->integrate) ref_multiply(n, n, t->count, turned, V, m.B);
    free(inverse);
    free(turned);
    free(QH);
    return m;
}

static void compare(const trial *t, int i, int64_t m, const double *E, const double *before, const double *after)
{
    double *expected = calloc((size_t)(m * m), sizeof(double)), max = 0, worst = 0;
    ref_multiply(m, m, m, E, before, expected);
    for (int64_t k = 0; k < m * m; k++) {
        max = fmax(max, fabs(expected[k]));
        worst = fmax(worst, fabs(expected[k] - after[k]));
    }
    free(expected);
    if (worst <= TOLERANCE * max) return;
    print_error("%s, %s, %s%s%s, %lld of %lld pairs, shape", t->spec, norm_names[t->norm],
                t->fisher ? "fisher" : "newton", t->integrate ? ", integrate" : "", t->unbiased ? ", unbiased" : "",
                (long long)t->count, (long long)t->pairs);
    for (int k = 0; k < t->ndim; k++) print_error(" %lld", (long long)t->shape[k]);
    print_error(": factor %d is off by %g of %g\n", i, worst, max);
    fail();
}

/* One update, made by the library and by the reference. The tree keeps the running maxima of second, so every update of
 * a trial goes through here. */
static void update_both(const trial *t, psgd_precond *precond, ref_node *tree, const real *v, const real *h, double *s,
                        bool check)
{
    int64_t n = psgd_precond_size(precond);
    int factors = psgd_precond_factor_count(precond);
    double *H = calloc((size_t)(n * t->count), sizeof(double)), *V = calloc((size_t)(n * t->count), sizeof(double));
    int64_t updates = psgd_precond_updates(precond);
    double correction = updates ? 1 - pow(t->average, (double)updates) : 1;
    double *corrected = calloc((size_t)n, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        corrected[i] = s[i] / correction; /* without this h */
        s[i] = t->average * s[i] + (1 - t->average) * (double)h[i];
    }
    as_columns(t, n, v, h, corrected, H, V);
    double *Q = whole(precond), *before[32], *E[32];
    images m = form(t, n, Q, H, V);
    estimate_data estimate = {.updates = psgd_precond_updates(precond), .pairs = t->pairs, .integrate = t->integrate};
    ref_options options = {.norm = t->norm,
                           .step = t->step,
                           .count = t->count,
                           .exact_dense = t->pairs <= 4,
                           .unprotected = ref_unprotected(tree),
                           .estimate = estimate_norm,
                           .data = &estimate};
    for (int i = 0; i < factors; i++) {
        int64_t size = psgd_precond_factor_size(precond, i);
        before[i] = factor(precond, i);
        E[i] = calloc((size_t)(size * size), sizeof(double));
        if (tree->kind == REF_KRON) {
            ref_factor_step(tree, i, m.A, m.a_count, m.B, m.b_count, &options, E[i]);
        } else {
            ref_step(tree, m.A, m.a_count, m.B, m.b_count, &options, E[i]);
        }
    }
    assert_ok(psgd_precond_update_pairs(precond, t->count, t->integrate ? NULL : v, h));
    for (int i = 0; i < factors; i++) {
        int64_t size = psgd_precond_factor_size(precond, i);
        double *after = factor(precond, i);
        assert_int_equal(tree->kind == REF_KRON ? tree->child[i]->n : tree->n, size);
        if (check) compare(t, i, size, E[i], before[i], after);
        free(after);
        free(before[i]);
        free(E[i]);
    }
    if (psgd_precond_skipped(precond)) print_error("%s, %s: skipped\n", t->spec, norm_names[t->norm]);
    assert_int_equal(psgd_precond_skipped(precond), 0);
    free(H);
    free(V);
    free(Q);
    free(corrected);
    free(m.A);
    free(m.B);
}

static void run(const trial *t, uint64_t seed, int warm, int checked)
{
    psgd_precond *precond = make(t);
    ref_node *tree = ref_parse(t->spec, t->ndim, t->shape);
    int64_t n = psgd_precond_size(precond);
    real *v = calloc((size_t)(n * t->count), sizeof(real)), *h = calloc((size_t)(n * t->count), sizeof(real));
    double *s = calloc((size_t)n, sizeof(double));
    for (int k = 0; k < warm + checked; k++) {
        for (int64_t i = 0; i < n * t->count; i++) {
            v[i] = (real)random_normal(&seed);
            h[i] = (real)((0.5 + (double)(i % n) / (double)n) * random_normal(&seed));
        }
        update_both(t, precond, tree, v, h, s, k >= warm);
    }
    free(v);
    free(h);
    free(s);
    ref_free(tree);
    psgd_precond_free(precond);
}

/* Settings that the criterion allows, drawn at random. */
static void draw_settings(trial *t, uint64_t *seed)
{
    t->norm = (ref_norm)random_below(seed, 5);
    t->fisher = random_below(seed, 2);
    t->integrate = random_below(seed, 4) == 0;
    t->damping = t->fisher ? 0.3 * (double)random_below(seed, 3) : 0;
    t->unbiased = t->fisher && random_below(seed, 4) == 0;
    t->pairs = t->unbiased ? 1 : 1 + random_below(seed, PAIRS);
    if (!t->unbiased && random_below(seed, 8) == 0) t->pairs = 6;
    t->count = 1 + random_below(seed, t->pairs);
    t->batch = 1 + random_below(seed, 5);
    t->average = 0.9;
    t->step = t->norm == REF_NONE ? 2e-4 : 0.1;
}

static void registered_groups_update_as_the_reference(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int i = 0; i < instance_count; i++) {
        const instance *g = &instances[i];
        for (int norm = 0; norm < 5; norm++) {
            trial t = {.spec = g->spec,
                       .ndim = g->ndim,
                       .shape = g->shape,
                       .pairs = 1,
                       .count = 1,
                       .batch = 1,
                       .average = 0.9,
                       .norm = (ref_norm)norm,
                       .step = norm == REF_NONE ? 0.002 : 0.1};
            run(&t, next_random(&seed), 4, 2);
            t.fisher = true;
            t.damping = 0.5;
            run(&t, next_random(&seed), 4, 2);
            t.integrate = true;
            run(&t, next_random(&seed), 4, 2);
            t.integrate = t.fisher = false;
            t.damping = 0;
            t.pairs = t.count = PAIRS;
            run(&t, next_random(&seed), 4, 2);
        }
    }
}

static void random_specs_update_as_the_reference(void **state)
{
    (void)state;
    uint64_t seed = 2024;
    char spec[SPEC_ROOM];
    int64_t shape[4];
    for (int k = 0; k < 1000; k++) {
        trial t = {.spec = spec, .shape = shape};
        t.ndim = random_spec(&seed, k % 10 ? 40 : MAX, spec, shape);
        draw_settings(&t, &seed);
        run(&t, next_random(&seed), 3, 1);
    }
}

/* Factors that drift apart are balanced now and then; no update of the product shows it. */
static void balancing_the_factors_leaves_their_product(void **state)
{
    (void)state;
    static const int64_t shape[] = {3, 4};
    static const char *const specs[] = {"kron(scale,tri)", "kron(norm,diag)", "kron(dense,scale)"};
    uint64_t seed = 6;
    for (int k = 0; k < 3; k++) {
        trial t = {.spec = specs[k],
                   .ndim = 2,
                   .shape = shape,
                   .pairs = 1,
                   .count = 1,
                   .batch = 1,
                   .average = 0.9,
                   .norm = REF_SPECTRAL,
                   .step = k == 0 ? 0.97 : 0.3};
        psgd_precond *precond = make(&t);
        ref_node *tree = ref_parse(t.spec, t.ndim, t.shape);
        ref_options options = {.norm = t.norm, .step = t.step, .count = 1, .exact_dense = true};
        int rebalanced = 0;
        for (int u = 0; u < 400; u++) {
            real v[12], h[12];
            double H[12], V[12], E[144], *before = whole(precond), *first = factor(precond, 0);
            for (int i = 0; i < 12; i++) {
                V[i] = (double)(v[i] = (real)random_normal(&seed));
                H[i] = (double)(h[i] = (real)random_normal(&seed));
            }
            images m = form(&t, 12, before, H, V);
            ref_step(tree, m.A, 1, m.B, 1, &options, E);
            assert_ok(psgd_precond_update(precond, v, h));
            double *after = whole(precond), *now = factor(precond, 0);
            compare(&t, -1, 12, E, before, after);
            rebalanced += now[0] > 3 * first[0] || now[0] < first[0] / 3;
            free(before);
            free(first);
            free(after);
            free(now);
            free(m.A);
            free(m.B);
        }
        assert_true(rebalanced > 0 || k != 0);
        ref_free(tree);
        psgd_precond_free(precond);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registered_groups_update_as_the_reference),
        cmocka_unit_test(random_specs_update_as_the_reference),
        cmocka_unit_test(balancing_the_factors_leaves_their_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
