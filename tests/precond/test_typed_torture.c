/* Every registered group, and families in sums, under what a hostile program feeds them: parts 10^30 apart, denormals,
 * v and h that share no entry, steps up to 0.9. Q and its inverse stay finite and undo each other, and the condition
 * number is that of the matrix. PSGD_TORTURE: how many updates each case sees, a hundred or so unless set;
 * PSGD_TORTURE_SPEC: only specs that contain this; PSGD_TORTURE_SEED: of the numbers. */
#include "specs.h"
#include "support.h"

#include "core/dtype.h"

#include <float.h>

static const double EPSILON = REAL_EPSILON;
#ifdef PSGD_REAL_F64
static const double TINY = DBL_MIN;
#else
static const double TINY = FLT_MIN;
#endif

static const instance sums[] = {
    {"sum", "sum(lra(1):3,diag:2)", 1, {5}},
    {"sum", "sum(splu(1):3,diag:2)", 1, {5}},
    {"sum", "sum(lra(2):4,splu(2):4)", 1, {8}},
    {"sum", "sum(diag:2,lra(1):3,tri:3)", 1, {8}},
    {"sum", "sum(dense:3,splu(2):5,scale:2)", 1, {10}},
    {"lra", "lra(3)", 1, {7}},
    {"splu", "splu(2)", 1, {7}},
};
enum { SUMS = sizeof sums / sizeof sums[0], LARGEST = 40 };

typedef enum food { APART, DENORMAL, DISJOINT, DISJOINT_FIXED, CONSTANT, FOODS } food;
static const char *const food_names[] = {"parts apart", "denormals", "disjoint pairs", "the same disjoint pair",
                                         "the same pair"};

typedef struct subject {
    const instance *g;
    const char *norm;
    double step;
    food food;
    int64_t n;
    psgd_precond *precond;
    real v[LARGEST], h[LARGEST];
    uint64_t seed;
} subject;

static void feed(subject *s, int t)
{
#ifdef PSGD_REAL_F64
    const double spread = 60;
#else
    const double spread = 15;
#endif
    double denormal = (double)TINY * 0x1p-10;
    for (int64_t i = 0; i < s->n; i++) {
        double v = random_normal(&s->seed), h = random_normal(&s->seed);
        if (s->food == APART) { /* as far as squares of products still have a chance */
            double part = (double)(i * 3 / s->n) - 1;
            h *= pow(10, spread * part);
        } else if (s->food == DENORMAL) {
            h *= t % 3 == 0 ? denormal : 1;
            v *= t % 3 == 1 ? denormal : 1;
        } else if (s->food == DISJOINT || s->food == DISJOINT_FIXED) {
            v *= i % 2;
            h *= 1 - i % 2;
        }
        if (t > 0 && (s->food == DISJOINT_FIXED || s->food == CONSTANT)) continue;
        s->v[i] = (real)v;
        s->h[i] = (real)h;
    }
}

/* The sign of the determinant of A [n][n], which is destroyed. */
static int sign_of_determinant(int64_t n, double *A)
{
    int sign = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++) pivot = fabs(A[i * n + k]) > fabs(A[pivot * n + k]) ? i : pivot;
        for (int64_t j = 0; j < n && pivot != k; j++) {
            double held = A[k * n + j];
            A[k * n + j] = A[pivot * n + j];
            A[pivot * n + j] = held;
        }
        sign *= (pivot == k ? 1 : -1) * (A[k * n + k] < 0 ? -1 : 1);
        for (int64_t i = k + 1; i < n && A[k * n + k] != 0; i++) {
            double factor = A[i * n + k] / A[k * n + k];
            for (int64_t j = k; j < n; j++) A[i * n + j] -= factor * A[k * n + j];
        }
    }
    return sign;
}

/* Largest and smallest singular value of A [n][n], by rotating its columns until they are orthogonal. */
static double true_condition(int64_t n, double *A)
{
    for (int sweep = 0; sweep < 60; sweep++) {
        double off = 0;
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) {
                double a = 0, b = 0, c = 0;
                for (int64_t i = 0; i < n; i++) {
                    a += A[p * n + i] * A[p * n + i];
                    b += A[q * n + i] * A[q * n + i];
                    c += A[p * n + i] * A[q * n + i];
                }
                if (c == 0) continue;
                off = fmax(off, fabs(c) / sqrt(a * b));
                double zeta = (b - a) / (2 * c), t = (zeta > 0 ? 1 : -1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
                double cosine = 1 / sqrt(1 + t * t), sine = cosine * t;
                for (int64_t i = 0; i < n; i++) {
                    double x = A[p * n + i], y = A[q * n + i];
                    A[p * n + i] = cosine * x - sine * y;
                    A[q * n + i] = sine * x + cosine * y;
                }
            }
        }
        if (off < 1e-14) break;
    }
    double max = 0, min = HUGE_VAL;
    for (int64_t p = 0; p < n; p++) {
        double norm = 0;
        for (int64_t i = 0; i < n; i++) norm = hypot(norm, A[p * n + i]);
        max = fmax(max, norm);
        min = fmin(min, norm);
    }
    return max / min;
}

static int failures;

static void fail_at(const subject *s, int t, const char *what, double got, double expected)
{
    failures++;
    print_error("%s, norm %s, step %g, %s, update %d: %s: %g, expected %g\n", s->g->spec, s->norm, s->step,
                food_names[s->food], t, what, got, expected);
}

static void examine(const subject *s, int t)
{
    int64_t n = s->n;
    double Q[LARGEST * LARGEST], copy[LARGEST * LARGEST], off = 0, reported;
    for (int64_t j = 0; j < n; j++) {
        real e[LARGEST] = {0}, y[LARGEST], back[LARGEST];
        e[j] = 1;
        assert_ok(psgd_precond_apply(s->precond, PSGD_APPLY_Q, e, y));
        assert_ok(psgd_precond_apply(s->precond, PSGD_APPLY_Q_INVERSE, y, back));
        for (int64_t i = 0; i < n; i++) {
            if (!isfinite((double)y[i])) fail_at(s, t, "an entry of Q", (double)y[i], 0);
            if (!isfinite((double)back[i])) fail_at(s, t, "an entry of Q^-1 Q", (double)back[i], i == j);
            Q[j * n + i] = (double)y[i];
            off = fmax(off, fabs((double)back[i] - (i == j)));
        }
    }
    memcpy(copy, Q, (size_t)(n * n) * sizeof *copy);
    double condition = true_condition(n, Q);
    /* Updates begin at a multiple of I and never pass a singular Q; max promises no such thing of xmat. */
    bool promised = !strstr(s->g->spec, "xmat") || strcmp(s->norm, "max");
    if (promised && condition < 1e-4 / EPSILON && sign_of_determinant(n, copy) < 0)
        fail_at(s, t, "sign of det Q", -1, 1);
    /* dense keeps an inverse of its own; families are looked at every few updates */
    double accuracy = fmax(4096 * (double)n * EPSILON * condition, 0.1);
    if (!(off < accuracy)) fail_at(s, t, "Q^-1 Q - I", off, accuracy);
    assert_ok(psgd_precond_condition(s->precond, &reported));
    bool certain = condition < 0.01 / EPSILON; /* else the smallest singular value is rounding */
    if (certain && !(fabs(reported - condition) < 0.05 * condition)) fail_at(s, t, "condition", reported, condition);
    if (!certain && !(reported > 1e-3 / EPSILON)) fail_at(s, t, "condition", reported, condition);
}

static void torture(const instance *g, const char *norm, double step, food what, int updates)
{
    const char *seed = getenv("PSGD_TORTURE_SEED"), *only = getenv("PSGD_TORTURE_SPEC");
    subject s = {.g = g, .norm = norm, .step = step, .food = what, .n = 1};
    psgd_options *options;
    s.seed = seed ? (uint64_t)atoll(seed) : 17;
    if (only && !strstr(g->spec, only)) return;
    for (int i = 0; i < g->ndim; i++) s.n *= g->shape[i];
    if (s.n > LARGEST) return;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set_number(options, "step", step));
    assert_ok(psgd_precond_create(NULL, g->spec, g->ndim, g->shape, REAL_DTYPE, options, &s.precond));
    psgd_options_free(options);
    for (int t = 0; t < updates; t++) {
        feed(&s, t);
        int before = failures;
        if (psgd_precond_update(s.precond, s.v, s.h) != PSGD_OK) fail_at(&s, t, psgd_last_error(), 0, 0);
        if (t < 3 || (t & (t + 1)) == 0 || t == updates - 1) examine(&s, t);
        if (failures > before) break;
    }
    psgd_precond_free(s.precond);
}

static void q_outlives_everything(void **state)
{
    (void)state;
    static const char *const norms[] = {"auto", "max", "spectral", "second"};
    static const double steps[] = {0.01, 0.1, 0.5, 0.9};
    const char *asked = getenv("PSGD_TORTURE");
#ifdef __SANITIZE_ADDRESS__
    int updates = asked ? atoi(asked) : 20;
#else
    int updates = asked ? atoi(asked) : 130;
#endif
    for (int i = 0; i < instance_count + SUMS; i++) {
        const instance *g = i < SUMS ? &sums[i] : &instances[i - SUMS];
        for (int k = 0; k < 4; k++) {
            for (int j = 0; j < 4; j++) {
                /* max promises nothing about full matrices: auto takes another norm there */
                if (strstr(g->spec, "dense") && !strcmp(norms[k], "max")) continue;
                for (int f = 0; f < FOODS; f++) torture(g, norms[k], steps[j], (food)f, updates);
            }
        }
    }
    assert_int_equal(failures, 0);
}

/* A million updates of families and of small groups, with the largest step: PSGD_LONG_TESTS, make test-all. */
static void q_outlives_a_million_updates(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    if (!getenv("PSGD_LONG_TESTS")) skip();
    failures = 0;
    for (int i = 0; i < instance_count + SUMS; i++) {
        const instance *g = i < SUMS ? &sums[i] : &instances[i - SUMS];
        int64_t n = 1;
        for (int k = 0; k < g->ndim; k++) n *= g->shape[k];
        if (i >= SUMS && n > 6) continue;
        for (int f = 0; f < FOODS; f++) torture(g, "auto", 0.9, (food)f, 1000000);
    }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q_outlives_everything),
        cmocka_unit_test(q_outlives_a_million_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
