/* Laws that every group obeys, whatever it is: the registry says which there are, specs.c has an instance of each. */
#include "reference.h"
#include "specs.h"
#include "support.h"
#include "group/registry.h"

#include "core/dtype.h"

#include <float.h>

static const double EPSILON = REAL_EPSILON;

typedef struct subject {
    const char *spec;
    int ndim;
    const int64_t *shape;
    int64_t n;
    psgd_precond *precond;
    uint64_t seed;
} subject;

static real *reals(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(real));
}

static real *random_reals(subject *s)
{
    real *x = reals(s->n);
    for (int64_t i = 0; i < s->n; i++) x[i] = (real)random_normal(&s->seed);
    return x;
}

static void advance(subject *s, psgd_precond *precond, int updates)
{
    for (int k = 0; k < updates; k++) {
        real *v = random_reals(s), *h = random_reals(s);
        assert_ok(psgd_precond_update(precond, v, h));
        free(v);
        free(h);
    }
}

static psgd_precond *make(const subject *s, const char *norm, double step)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set_number(options, "step", step));
    assert_ok(psgd_precond_create(NULL, s->spec, s->ndim, s->shape, REAL_DTYPE, options, &precond));
    psgd_options_free(options);
    return precond;
}

static void start(subject *s, const char *spec, int ndim, const int64_t *shape, uint64_t seed)
{
    *s = (subject){.spec = spec, .ndim = ndim, .shape = shape, .seed = seed};
    s->precond = make(s, "spectral", 0.3);
    s->n = psgd_precond_size(s->precond);
    advance(s, s->precond, 6);
}

static double *factor(const psgd_precond *precond, int i)
{
    int64_t m = psgd_precond_factor_size(precond, i);
    real *typed = reals(m * m);
    double *Q = calloc((size_t)(m * m) + 1, sizeof(double));
    assert_ok(psgd_precond_factor(precond, i, typed));
    for (int64_t k = 0; k < m * m; k++) Q[k] = (double)typed[k];
    free(typed);
    return Q;
}

static double max(int64_t n, const double *x)
{
    double m = 0;
    for (int64_t i = 0; i < n; i++) m = fmax(m, fabs(x[i]));
    return m;
}

static double dot(int64_t n, const real *x, const real *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

/* |x - y| is within tolerance of the size of x. */
static void assert_same(const subject *s, const char *law, const real *x, const real *y, double tolerance)
{
    double size = sqrt(dot(s->n, x, x)), off = 0;
    for (int64_t i = 0; i < s->n; i++) off = fmax(off, fabs((double)x[i] - (double)y[i]));
    if (off <= tolerance * size) return;
    print_error("%s: %s: off by %g of %g\n", s->spec, law, off, size);
    fail();
}

static real *apply(const subject *s, psgd_operator what, const real *x)
{
    real *y = reals(s->n);
    assert_ok(psgd_precond_apply(s->precond, what, x, y));
    return y;
}

/* Rounding, as it comes out of Q and its inverse: condition times epsilon, times what n terms may add up. */
static double rounding(const subject *s)
{
    double condition;
    assert_ok(psgd_precond_condition(s->precond, &condition));
    return 64 * EPSILON * condition * condition * sqrt((double)s->n);
}

static void check_duality(subject *s)
{
    real *x = random_reals(s), *y = random_reals(s);
    real *Qx = apply(s, PSGD_APPLY_Q, x), *Qy = apply(s, PSGD_APPLY_QT_INVERSE, y);
    double a = dot(s->n, Qx, Qy), b = dot(s->n, x, y), size = sqrt(dot(s->n, x, x) * dot(s->n, y, y));
    if (fabs(a - b) > rounding(s) * size) {
        print_error("%s: <Qx, Q^-T y> = %g, <x, y> = %g\n", s->spec, a, b);
        fail();
    }
    free(x);
    free(y);
    free(Qx);
    free(Qy);
}

static void check_inverses(subject *s)
{
    static const psgd_operator pairs[][2] = {{PSGD_APPLY_Q, PSGD_APPLY_Q_INVERSE},
                                             {PSGD_APPLY_QT, PSGD_APPLY_QT_INVERSE},
                                             {PSGD_APPLY_P, PSGD_APPLY_P_INVERSE}};
    for (int i = 0; i < 3; i++) {
        real *x = random_reals(s), *y = apply(s, pairs[i][0], x), *z = apply(s, pairs[i][1], y);
        assert_same(s, "solve undoes mul", x, z, rounding(s));
        free(y);
        free(z);
        y = apply(s, pairs[i][1], x);
        z = apply(s, pairs[i][0], y);
        assert_same(s, "mul undoes solve", x, z, rounding(s));
        free(x);
        free(y);
        free(z);
    }
}

/* Each operator is the product that its name says; in place is the same as apart, to the bit. */
static void check_operators(subject *s)
{
    static const psgd_operator table[][3] = {
        {PSGD_APPLY_P, PSGD_APPLY_Q, PSGD_APPLY_QT},
        {PSGD_APPLY_P2, PSGD_APPLY_P, PSGD_APPLY_P},
        {PSGD_APPLY_P_INVERSE, PSGD_APPLY_QT_INVERSE, PSGD_APPLY_Q_INVERSE},
        {PSGD_APPLY_P2_INVERSE, PSGD_APPLY_P_INVERSE, PSGD_APPLY_P_INVERSE},
    };
    for (int i = 0; i < 4; i++) {
        real *x = random_reals(s), *whole = apply(s, table[i][0], x);
        real *half = apply(s, table[i][1], x), *both = apply(s, table[i][2], half);
        assert_same(s, "operators as products", whole, both, 8 * EPSILON);
        assert_ok(psgd_precond_apply(s->precond, table[i][0], x, x));
        assert_memory_equal(x, whole, (size_t)s->n * sizeof(real));
        free(x);
        free(whole);
        free(half);
        free(both);
    }
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
    assert_int_equal(done, psgd_precond_size(precond));
    return all;
}

/* Q and Q' are what psgd_precond_factor shows. */
static void check_factors(subject *s)
{
    int64_t done = s->n;
    double *all = whole(s->precond);
    for (int transpose = 0; transpose < 2; transpose++) {
        real *x = random_reals(s), *y = reals(s->n);
        for (int64_t i = 0; i < done; i++) {
            double sum = 0;
            for (int64_t j = 0; j < done; j++) sum += all[transpose ? j * done + i : i * done + j] * (double)x[j];
            y[i] = (real)sum;
        }
        real *z = apply(s, transpose ? PSGD_APPLY_QT : PSGD_APPLY_Q, x);
        assert_same(s, "factors", y, z, 64 * EPSILON * sqrt((double)done));
        free(x);
        free(y);
        free(z);
    }
    free(all);
}

/* The criterion is h'Ph + v'P^-1 v, the condition that of the whole Q. */
static void check_figures(subject *s)
{
    real *v = random_reals(s), *h = random_reals(s);
    real *A = apply(s, PSGD_APPLY_Q, h), *B = apply(s, PSGD_APPLY_QT_INVERSE, v);
    double value, condition, expected = dot(s->n, A, A) + dot(s->n, B, B);
    double *Q = whole(s->precond), *inverse = calloc((size_t)(s->n * s->n), sizeof(double));
    assert_ok(psgd_precond_criterion(s->precond, v, h, &value));
    assert_true(fabs(value - expected) <= 64 * EPSILON * expected);
    assert_true(ref_invert(s->n, Q, inverse));
    expected = ref_spectral_norm(s->n, Q) * ref_spectral_norm(s->n, inverse);
    assert_ok(psgd_precond_condition(s->precond, &condition));
    if (fabs(condition - expected) > 64 * EPSILON * expected * expected) {
        print_error("%s: the condition is %g, not %g\n", s->spec, condition, expected);
        fail();
    }
    free(v);
    free(h);
    free(A);
    free(B);
    free(Q);
    free(inverse);
}

static void assert_inside(const subject *s, const char *what, const ref_node *node, const double *Q)
{
    double out = ref_outside(node, Q), size = max(node->n * node->n, Q);
    if (out <= 64 * EPSILON * size) return;
    print_error("%s: %s leaves the group by %g of %g\n", s->spec, what, out, size);
    fail();
}

/* Elements, their products and their inverses have the pattern of the group. */
static void check_closure(subject *s)
{
    subject other = *s;
    ref_node *tree = ref_parse(s->spec, s->ndim, s->shape);
    other.precond = make(s, "spectral", 0.3);
    advance(&other, other.precond, 5);
    for (int i = 0; i < psgd_precond_factor_count(s->precond); i++) {
        const ref_node *node = tree->kind == REF_KRON ? tree->child[i] : tree;
        int64_t m = node->n;
        double *Q = factor(s->precond, i), *G = factor(other.precond, i);
        double *product = calloc((size_t)(m * m) + 1, sizeof(double));
        assert_inside(s, "Q", node, Q);
        ref_multiply(m, m, m, Q, G, product);
        assert_inside(s, "a product", node, product);
        assert_true(ref_invert(m, Q, product));
        assert_inside(s, "an inverse", node, product);
        free(Q);
        free(G);
        free(product);
    }
    ref_free(tree);
    psgd_precond_free(other.precond);
}

static void for_all(void (*check)(subject *))
{
    uint64_t seed = 77;
    char spec[SPEC_ROOM];
    int64_t shape[4];
    subject s;
    for (int i = 0; i < instance_count; i++) {
        start(&s, instances[i].spec, instances[i].ndim, instances[i].shape, next_random(&seed));
        check(&s);
        psgd_precond_free(s.precond);
    }
    for (int k = 0; k < 100; k++) {
        int ndim = random_spec(&seed, 60, spec, shape);
        start(&s, spec, ndim, shape, next_random(&seed));
        check(&s);
        psgd_precond_free(s.precond);
    }
}

static void every_registered_group_has_an_instance(void **state)
{
    (void)state;
    for (int g = 0; psgd_group_name(NULL, g); g++) {
        bool found = psgd__group_kind_at(NULL, g)->place == PLACE_VECTOR; /* a family: test_typed_families.c */
        for (int i = 0; i < instance_count; i++) found = found || !strcmp(instances[i].name, psgd_group_name(NULL, g));
        if (!found) print_error("tests/specs.c has no instance of %s\n", psgd_group_name(NULL, g));
        assert_true(found);
        assert_true(strlen(psgd_group_summary(NULL, g)) > 0);
        assert_true(strlen(psgd_group_formula(NULL, g)) > 0);
    }
}

static void inner_products_are_kept_by_q_and_its_inverse_transpose(void **state)
{
    (void)state;
    for_all(check_duality);
}

static void inverses_undo(void **state)
{
    (void)state;
    for_all(check_inverses);
}

static void operators_are_products_of_q(void **state)
{
    (void)state;
    for_all(check_operators);
    for_all(check_factors);
}

static void criterion_and_condition_are_those_of_q(void **state)
{
    (void)state;
    for_all(check_figures);
}

static void products_and_inverses_stay_in_the_group(void **state)
{
    (void)state;
    for_all(check_closure);
}

/* With v' = G v, h' = G^-T h and Q' = Q G', Q'h' = Qh and Q'^-T v' = Q^-T v, so after any number of updates Q' is still
 * Q G'. G' is the Q that an earlier fit has come to. */
static void check_change_of_basis(subject *s)
{
    static const char *const norms[] = {"max", "spectral", "none", "auto"};
    for (int k = 0; k < 4; k++) {
        double step = k == 2 ? 2e-4 : 0.1;
        psgd_precond *plain = make(s, norms[k], step), *turned = make(s, norms[k], step);
        subject frozen = *s;
        frozen.seed = 31 + (uint64_t)k;
        frozen.precond = make(s, norms[k], step);
        uint64_t begin = s->seed;
        advance(s, turned, 6);
        s->seed = begin;
        advance(s, frozen.precond, 6);
        for (int i = 0; i < 6; i++) {
            real *v = random_reals(s), *h = random_reals(s);
            real *v2 = apply(&frozen, PSGD_APPLY_QT, v), *h2 = apply(&frozen, PSGD_APPLY_Q_INVERSE, h);
            assert_ok(psgd_precond_update(plain, v, h));
            assert_ok(psgd_precond_update(turned, v2, h2));
            free(v);
            free(h);
            free(v2);
            free(h2);
        }
        real *x = random_reals(s), *Gx = apply(&frozen, PSGD_APPLY_Q, x), *QGx = reals(s->n), *Qx = reals(s->n);
        assert_ok(psgd_precond_apply(plain, PSGD_APPLY_Q, Gx, QGx));
        assert_ok(psgd_precond_apply(turned, PSGD_APPLY_Q, x, Qx));
        assert_same(s, norms[k], QGx, Qx, 1e4 * EPSILON * sqrt((double)s->n));
        free(x);
        free(Gx);
        free(QGx);
        free(Qx);
        psgd_precond_free(plain);
        psgd_precond_free(turned);
        psgd_precond_free(frozen.precond);
    }
}

static void a_change_of_basis_within_the_group_changes_nothing(void **state)
{
    (void)state;
    for_all(check_change_of_basis);
}

static bool takes_rules(const subject *s)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "rule", "qeq"));
    psgd_status status = psgd_precond_create(NULL, s->spec, s->ndim, s->shape, REAL_DTYPE, options, &precond);
    psgd_options_free(options);
    psgd_precond_free(precond);
    return status == PSGD_OK;
}

/* Update rules other than the paper's are accepted exactly where Q' is in the group. */
static void check_adjoint(subject *s)
{
    if (s->n == 1) return; /* symmetric whatever it is called */
    ref_node *tree = ref_parse(s->spec, s->ndim, s->shape);
    double *Q = whole(s->precond), *turned = calloc((size_t)(s->n * s->n), sizeof(double));
    ref_transpose(s->n, s->n, Q, turned);
    double outside = ref_outside(tree, turned), size = max(s->n * s->n, Q);
    if (takes_rules(s) != (outside < 1e-4 * size)) {
        print_error("%s: rules are %s, and Q' is outside by %g of %g\n", s->spec, takes_rules(s) ? "taken" : "refused",
                    outside, size);
        fail();
    }
    free(Q);
    free(turned);
    ref_free(tree);
}

static void rules_are_taken_where_transposes_are_inside(void **state)
{
    (void)state;
    subject s;
    for (int i = 0; i < instance_count; i++) {
        start(&s, instances[i].spec, instances[i].ndim, instances[i].shape, 77 + (uint64_t)i);
        check_adjoint(&s);
        psgd_precond_free(s.precond);
    }
}

static bool contains(const ref_node *node, ref_kind kind)
{
    bool found = node->kind == kind;
    for (int i = 0; i < node->child_count; i++) found = found || contains(node->child[i], kind);
    return found;
}

/* Triangular kinds keep a positive diagonal; so do the others that have no unprotected part. */
static void assert_alive(const subject *s, const psgd_precond *precond, const ref_node *tree, bool positive)
{
    double condition;
    assert_ok(psgd_precond_condition(precond, &condition));
    if (!isfinite(condition) || condition < 1 - 1e-5) {
        print_error("%s: the condition of Q is %g\n", s->spec, condition);
        fail();
    }
    assert_int_equal(psgd_precond_skipped(precond), 0);
    for (int i = 0; i < psgd_precond_factor_count(precond); i++) {
        int64_t m = psgd_precond_factor_size(precond, i);
        double *Q = factor(precond, i);
        assert_inside(s, "Q after many updates", tree->kind == REF_KRON ? tree->child[i] : tree, Q);
        for (int64_t k = 0; k < m * m; k++) assert_true(isfinite(Q[k]));
        for (int64_t k = 0; positive && k < m; k++) assert_true(Q[k * m + k] > 0);
        free(Q);
    }
}

/* Thousands of steps of nearly the full size, with the normalisers that promise it. */
static void check_survival(subject *s)
{
    ref_node *tree = ref_parse(s->spec, s->ndim, s->shape);
    bool unprotected = contains(tree, REF_DENSE) || contains(tree, REF_XMAT);
    for (int spectral = unprotected; spectral < 2; spectral++) {
        psgd_precond *precond = make(s, spectral ? "spectral" : "max", 0.99);
        for (int k = 0; k < 4; k++) {
            advance(s, precond, 500);
            assert_alive(s, precond, tree, !unprotected);
        }
        psgd_precond_free(precond);
    }
    ref_free(tree);
}

static void q_survives_steps_near_one(void **state)
{
    (void)state;
    subject s;
    for (int i = 0; i < instance_count; i++) {
        start(&s, instances[i].spec, instances[i].ndim, instances[i].shape, 9 + (uint64_t)i);
        check_survival(&s);
        psgd_precond_free(s.precond);
    }
}

/* dense keeps Q^-1 beside Q and lets both move; it must notice when the one is no longer the inverse of the other. */
static void the_inverse_of_dense_stays_its_inverse(void **state)
{
    (void)state;
    static const instance dense[] = {{"dense", "dense", 1, {12}},
                                     {"dense", "kron(dense,dense)", 2, {6, 5}},
                                     {"dense", "kron(dense,diag)", 2, {7, 2}}};
    subject s;
    for (int i = 0; i < 3; i++) {
        start(&s, dense[i].spec, dense[i].ndim, dense[i].shape, 55);
        for (int k = 0; k < 20; k++) {
            double condition;
            advance(&s, s.precond, 300);
            assert_ok(psgd_precond_condition(s.precond, &condition));
            real *x = random_reals(&s), *y = apply(&s, PSGD_APPLY_Q_INVERSE, x), *z = apply(&s, PSGD_APPLY_Q, y);
            assert_same(&s, "Q Q^-1", x, z, 14 * EPSILON * condition);
            free(x);
            free(y);
            free(z);
        }
        psgd_precond_free(s.precond);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_registered_group_has_an_instance),
        cmocka_unit_test(inner_products_are_kept_by_q_and_its_inverse_transpose),
        cmocka_unit_test(inverses_undo),
        cmocka_unit_test(operators_are_products_of_q),
        cmocka_unit_test(criterion_and_condition_are_those_of_q),
        cmocka_unit_test(products_and_inverses_stay_in_the_group),
        cmocka_unit_test(a_change_of_basis_within_the_group_changes_nothing),
        cmocka_unit_test(rules_are_taken_where_transposes_are_inside),
        cmocka_unit_test(q_survives_steps_near_one),
        cmocka_unit_test(the_inverse_of_dense_stays_its_inverse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
