/* Section 3.2: with g - s + s/sqrt(B) for g, s a moving average of g, P^2/B estimates the inverse Fisher matrix without
 * the bias (B - 1) gg'/B.
 *
 * The model is linear, l = (theta'x - y)^2 / 2 with x ~ N(0, S) and y = theta*'x + noise of variance w, so that with
 * d = theta - theta* everything is known: g = Sd, F = (d'Sd + w) S + 2 Sdd'S. d is large, so that gg' is a good part of
 * F. */
#include "reference.h"
#include "support.h"

#include "core/text.h"

enum { N = 3, B = 16, UPDATES = 120000 };

static const double root[N * N] = {1, 0, 0, 0.5, 1.2, 0, -0.3, 0.4, 0.8}; /* S = root root' */
static const double d[N] = {0.8, -0.5, 0.6}, noise = 0.7;

typedef struct truth {
    double S[N * N], g[N], F[N * N];
} truth;

static truth known(void)
{
    truth t = {.g = {0}};
    double turned[N * N], energy = noise * noise;
    ref_transpose(N, N, root, turned);
    ref_multiply(N, N, N, root, turned, t.S);
    ref_multiply(N, N, 1, t.S, d, t.g);
    for (int i = 0; i < N; i++) energy += d[i] * t.g[i];
    for (int i = 0; i < N * N; i++) t.F[i] = energy * t.S[i] + 2 * t.g[i / N] * t.g[i % N];
    return t;
}

/* The mean of the gradients of B samples. */
static void draw(uint64_t *seed, double *g)
{
    memset(g, 0, N * sizeof *g);
    for (int k = 0; k < B; k++) {
        double z[N], x[N], error = -noise * random_normal(seed);
        for (int i = 0; i < N; i++) z[i] = random_normal(seed);
        ref_multiply(N, N, 1, root, z, x);
        for (int i = 0; i < N; i++) error += d[i] * x[i];
        for (int i = 0; i < N; i++) g[i] += error * x[i] / B;
    }
}

/* The mean over the second half of a fit of P^2/B, from one gradient an update with the plain rule and a decaying step.
 */
static void fit(const char *spec, const char *average, double *inverse)
{
    psgd_options *options;
    psgd_precond *p;
    uint64_t seed = 4;
    assert_ok(psgd_options_create(NULL, &options));
    static const char *const set[] = {"criterion", "fisher", "unbiased", "yes", "integrate", "yes", "norm", "none"};
    for (int i = 0; i < 8; i += 2) assert_ok(psgd_options_set(options, set[i], set[i + 1]));
    assert_ok(psgd_options_set_number(options, "batch", B));
    assert_ok(psgd_options_set(options, "average", average));
    assert_ok(psgd_precond_create(NULL, spec, 1, (int64_t[]){N}, PSGD_F64, options, &p));
    psgd_options_free(options);
    memset(inverse, 0, N * N * sizeof *inverse);
    for (int k = 0; k < UPDATES; k++) {
        double g[N];
        draw(&seed, g);
        assert_ok(psgd_precond_set_step(p, 0.02 / (1 + k / 500.0)));
        assert_ok(psgd_precond_update(p, NULL, g));
        for (int j = 0; k >= UPDATES / 2 && j < N; j++) {
            double column[N] = {0};
            column[j] = 1;
            assert_ok(psgd_precond_apply(p, PSGD_APPLY_P2, column, column));
            for (int i = 0; i < N; i++) inverse[i * N + j] += column[i] / B / (UPDATES - UPDATES / 2);
        }
    }
    assert_int_equal(psgd_precond_skipped(p), 0);
    psgd_precond_free(p);
}

/* tr(P^2 F / B) / n, and the largest entry of P^2 F / B - I; a diag sees the diagonal of F. */
static double compare(bool diagonal, const double *inverse, const double *F, double *worst)
{
    double product[N * N], own[N * N] = {0}, sum = 0;
    for (int i = 0; i < N * N; i++) own[i] = diagonal && i / N != i % N ? 0 : F[i];
    ref_multiply(N, N, N, inverse, own, product);
    *worst = 0;
    for (int i = 0; i < N * N; i++) {
        *worst = fmax(*worst, fabs(product[i] - (i / N == i % N)));
        if (i / N == i % N) sum += product[i] / N;
    }
    return sum;
}

/* s has noise of its own: E[hh'] = (1 + k)(F - gg')/B + gg'/B with k = (1 - 1/sqrt(B))^2 (1 - average)/(1 + average).
 */
static void expected(const truth *t, double average, double *E)
{
    double k = (1 - 1 / sqrt((double)B)) * (1 - 1 / sqrt((double)B)) * (1 - average) / (1 + average);
    for (int i = 0; i < N * N; i++) {
        double outer = t->g[i / N] * t->g[i % N];
        E[i] = (1 + k) * (t->F[i] - outer) + outer;
    }
}

/* The error of a mean over 60000 gradients, of fourth moments: below one percent. */
static void p_squared_over_the_batch_is_the_inverse_fisher_matrix(void **state)
{
    (void)state;
    static const char *const specs[] = {"diag", "tri", "dense"}, *const averages[] = {"0.9", "0.99"};
    truth t = known();
    for (int s = 0; s < 3; s++) {
        for (int a = 0; a < 2; a++) {
            double inverse[N * N], E[N * N], worst, worst_expected;
            fit(specs[s], averages[a], inverse);
            expected(&t, psgd__to_number(averages[a], NULL), E);
            double mean = compare(s == 0, inverse, t.F, &worst);
            double of_expected = compare(s == 0, inverse, E, &worst_expected);
            print_message(
                "%s, average %s: tr(P^2 F / B) / n = %.3f, largest error %.3f; with the noise of s %.3f, %.3f\n",
                specs[s], averages[a], mean, worst, of_expected, worst_expected);
            assert_true(fabs(of_expected - 1) < 0.01 && worst_expected < 0.03);
            assert_true(fabs(mean - 1) < (a ? 0.01 : 0.03));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(p_squared_over_the_batch_is_the_inverse_fisher_matrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
