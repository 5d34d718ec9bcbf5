/* lra(r) and splu(r) reach the minimum of the criterion over their family as well as a general-purpose minimiser does.
 *
 * With v = sqrt(n) e_k for k = 1 .. n as the pairs of every update, the mean over them is the expectation over
 * v ~ N(0, I): c(Q) = tr(Q H^2 Q') + tr((Q'Q)^-1). The same c is minimised over the parameters of the family by BFGS
 * with numerical gradients, from several starts. Without a factorisation to restrict it, the minimum is 2 tr|H|. */
#include "support.h"

enum { N = 5, MAX = 40, STARTS = 6 };

typedef struct problem {
    bool lra;
    int r;
    double H2[N][N];
} problem;

/* Q from the parameters: d, U, V of lra; L and U of splu by rows, only what may be non-zero. */
static int build(const problem *p, const double *x, double Q[N][N])
{
    int at = 0;
    double L[N][N] = {0}, U[N][N] = {0};
    memset(Q, 0, sizeof(double) * N * N);
    if (p->lra) {
        const double *d = x, *u = x + N, *v = u + N * p->r;
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++) {
                Q[i][j] = i == j;
                for (int k = 0; k < p->r; k++) Q[i][j] += u[k * N + i] * v[k * N + j];
                Q[i][j] *= d[j];
            }
        }
        return N * (2 * p->r + 1);
    }
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < N; i++) {
            for (int j = 0; j <= i; j++) {
                if (i != j && j >= p->r) continue;
                if (half) {
                    U[j][i] = x[at++];
                } else {
                    L[i][j] = x[at++];
                }
            }
        }
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            for (int k = 0; k < N; k++) Q[i][j] += L[i][k] * U[k][j];
        }
    }
    return at;
}

/* tr(Q H^2 Q') + ||Q^-1||_F^2; infinite where Q is singular. */
static double criterion_of(const problem *p, double Q[N][N])
{
    double M[N][2 * N], sum = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            M[i][j] = Q[i][j];
            M[i][N + j] = i == j;
            for (int k = 0; k < N; k++) sum += Q[i][j] * p->H2[j][k] * Q[i][k];
        }
    }
    for (int c = 0; c < N; c++) {
        int best = c;
        for (int i = c; i < N; i++) best = fabs(M[i][c]) > fabs(M[best][c]) ? i : best;
        if (!(fabs(M[best][c]) > 1e-12)) return HUGE_VAL;
        for (int j = 0; j < 2 * N; j++) {
            double keep = M[c][j];
            M[c][j] = M[best][j];
            M[best][j] = keep;
        }
        double pivot = M[c][c];
        for (int j = 0; j < 2 * N; j++) M[c][j] /= pivot;
        for (int i = 0; i < N; i++) {
            double f = M[i][c];
            for (int j = 0; i != c && j < 2 * N; j++) M[i][j] -= f * M[c][j];
        }
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) sum += M[i][N + j] * M[i][N + j];
    }
    return sum;
}

static double value(const problem *p, const double *x)
{
    double Q[N][N];
    build(p, x, Q);
    return criterion_of(p, Q);
}

static void gradient(const problem *p, int n, double *x, double *g)
{
    for (int i = 0; i < n; i++) {
        double keep = x[i], e = 1e-5 * fmax(1, fabs(keep)), up, down;
        x[i] = keep + e;
        up = value(p, x);
        x[i] = keep - e;
        down = value(p, x);
        x[i] = keep;
        g[i] = (up - down) / (2 * e);
    }
}

/* BFGS on the inverse Hessian with a search by halving. */
static double minimise(const problem *p, int n, double *x)
{
    static double B[MAX][MAX];
    double g[MAX], next[MAX], g_next[MAX], d[MAX], By[MAX], now = value(p, x);
    memset(B, 0, sizeof B);
    for (int i = 0; i < n; i++) B[i][i] = 0.01;
    gradient(p, n, x, g);
    for (int t = 0; t < 3000; t++) {
        double slope = 0, step = 1, found = HUGE_VAL, sy = 0, yBy = 0;
        for (int i = 0; i < n; i++) {
            d[i] = 0;
            for (int j = 0; j < n; j++) d[i] -= B[i][j] * g[j];
            slope += d[i] * g[i];
        }
        if (!(slope < 0)) {
            memset(B, 0, sizeof B);
            for (int i = 0; i < n; i++) B[i][i] = 0.01;
            if (t % 2) break;
            continue;
        }
        for (int k = 0; k < 50; k++, step /= 2) {
            for (int i = 0; i < n; i++) next[i] = x[i] + step * d[i];
            found = value(p, next);
            if (found <= now + 1e-4 * step * slope) break;
        }
        if (!(found < now)) break;
        gradient(p, n, next, g_next);
        for (int i = 0; i < n; i++) sy += (next[i] - x[i]) * (g_next[i] - g[i]);
        for (int i = 0; i < n; i++) {
            By[i] = 0;
            for (int j = 0; j < n; j++) By[i] += B[i][j] * (g_next[j] - g[j]);
            yBy += By[i] * (g_next[i] - g[i]);
        }
        for (int i = 0; sy > 1e-14 && i < n; i++) {
            for (int j = 0; j < n; j++) {
                double si = next[i] - x[i], sj = next[j] - x[j];
                B[i][j] += (1 + yBy / sy) * si * sj / sy - (By[i] * sj + si * By[j]) / sy;
            }
        }
        bool still = now - found < 1e-13 * now;
        memcpy(x, next, sizeof next);
        memcpy(g, g_next, sizeof g);
        now = found;
        if (still) break;
    }
    return now;
}

static double best_of(const problem *p, uint64_t *seed)
{
    double best = HUGE_VAL, Q[N][N], zero[MAX] = {0};
    int n = build(p, zero, Q);
    for (int s = 0; s < STARTS; s++) {
        double x[MAX] = {0};
        int at = 0;
        for (int i = 0; i < n; i++) x[i] = 0.3 * random_normal(seed);
        if (p->lra) {
            for (int i = 0; i < N; i++) x[i] += 0.5;
        } else {
            for (int half = 0; half < 2; half++) {
                for (int i = 0; i < N; i++) {
                    for (int j = 0; j <= i; j++) {
                        if (i == j) x[at] = 0.6 + 0.1 * fabs(x[at]);
                        if (i == j || j < p->r) at++;
                    }
                }
            }
        }
        best = fmin(best, minimise(p, n, x));
    }
    return best;
}

/* The criterion after so many updates; *skipped (may be NULL) receives how many parts of Q stayed where they were. */
static double fitted(const problem *p, double H[N][N], const char *norm, double step, int updates, int64_t *skipped)
{
    char spec[32];
    int64_t n = N;
    double v[N * N] = {0}, h[N * N], Q[N][N];
    psgd_options *options;
    psgd_precond *precond;
    snprintf(spec, sizeof spec, "%s(%d)", p->lra ? "lra" : "splu", p->r);
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set_number(options, "pairs", N));
    assert_ok(psgd_precond_create(NULL, spec, 1, &n, PSGD_F64, options, &precond));
    for (int k = 0; k < N; k++) {
        v[k * N + k] = sqrt(N);
        for (int i = 0; i < N; i++) h[k * N + i] = H[i][k] * sqrt(N);
    }
    for (int t = 0; t < updates; t++) {
        assert_ok(psgd_precond_set_step(precond, step * fmin(1, 4.0 * (updates - t) / updates)));
        assert_ok(psgd_precond_update_pairs(precond, N, v, h));
    }
    assert_ok(psgd_precond_factor(precond, 0, Q));
    if (skipped) *skipped = psgd_precond_skipped(precond);
    psgd_precond_free(precond);
    psgd_options_free(options);
    return criterion_of(p, Q);
}

/* With the signs of some unknowns turned round the minimum is the same, but V of lra starts elsewhere. */
static void turn(problem *p, double H[N][N], int signs)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double sign = (signs >> i & 1) == (signs >> j & 1) ? 1 : -1;
            H[i][j] *= sign;
            p->H2[i][j] *= sign;
        }
    }
}

/* The best over as many starts as the minimiser has; the first that is good enough will do. */
static double best_fit(problem *p, double H[N][N], const char *norm, double step, double enough)
{
    double best = HUGE_VAL;
    for (int s = 0; s < STARTS && !(best <= enough); s++) {
        turn(p, H, s);
        best = fmin(best, fitted(p, H, norm, step, 20000, NULL));
        turn(p, H, s);
    }
    return best;
}

static void make_problem(problem *p, double H[N][N], uint64_t *seed)
{
    double root[N][N];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) root[i][j] = random_normal(seed) + (i == j);
    }
    for (int i = 0; i < N; i++) { /* symmetric, with negative curvature in it */
        for (int j = 0; j < N; j++) H[i][j] = root[i][j] + root[j][i];
    }
    memset(p->H2, 0, sizeof p->H2);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            for (int k = 0; k < N; k++) p->H2[i][j] += H[i][k] * H[k][j];
        }
    }
}

/* On this problem lra(1) has minima of 33.075, 33.095 and 33.121, all of them at infinity: an entry of d goes to 0
 * while those of U and V beside it grow. Where a fit ends depends on where V starts, and so it does for BFGS from
 * there; hence several starts for both. */
static void reaches_the_minimum(void **state)
{
    (void)state;
    uint64_t seed = 8;
    double H[N][N];
    problem p;
    make_problem(&p, H, &seed);
    for (int lra = 0; lra < 2; lra++) {
        for (int r = 0; r <= 2; r++) {
            p.lra = lra;
            p.r = r;
            double best = best_of(&p, &seed), enough = best * (1 + 1e-3);
            double plain = best_fit(&p, H, "none", 0.002, enough);
            double normalised = best_fit(&p, H, "second", 0.3, enough);
            print_message("%s(%d): minimiser %.6f, plain %.6f, normalised %.6f\n", lra ? "lra" : "splu", r, best, plain,
                          normalised);
            assert_true(plain <= enough);
            assert_true(normalised <= enough);
        }
    }
}

/* A plain step that is too large for panels which have grown would carry M = I + V'U through 0: it is left out. */
static void a_long_fit_stays_invertible(void **state)
{
    (void)state;
    uint64_t seed = 8;
    int64_t skipped;
    double H[N][N];
    problem p;
    make_problem(&p, H, &seed);
    p.lra = true;
    p.r = 1;
    double value = fitted(&p, H, "none", 0.004, 150000, &skipped);
    print_message("lra(1) after 150000 updates: %.6f, %lld left out\n", value, (long long)skipped);
    assert_true(value < 34);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reaches_the_minimum),
                                       cmocka_unit_test(a_long_fit_stays_invertible)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
