/* lra(r) and splu(r) against their update rules on dense matrices in double, for every normaliser. */
#include "support.h"

#include "group/family/lra.h"
#include "group/family/splu.h"
#include "precond/precond.h"

#include <float.h>

enum { MAX = 12 };

typedef struct dense {
    int n;
    double x[MAX][MAX];
} dense;

#ifdef PSGD_REAL_F64
static const double tolerance = 1e-10;
#else
static const double tolerance = 2e-4; /* a few hundred roundings of numbers near 1 */
#endif

static dense identity(int n)
{
    dense M = {.n = n};
    for (int i = 0; i < n; i++) M.x[i][i] = 1;
    return M;
}

static dense product(const dense *X, const dense *Y)
{
    dense Z = {.n = X->n};
    for (int i = 0; i < X->n; i++) {
        for (int j = 0; j < X->n; j++) {
            for (int k = 0; k < X->n; k++) Z.x[i][j] += X->x[i][k] * Y->x[k][j];
        }
    }
    return Z;
}

static dense transpose(const dense *X)
{
    dense Y = {.n = X->n};
    for (int i = 0; i < X->n; i++) {
        for (int j = 0; j < X->n; j++) Y.x[i][j] = X->x[j][i];
    }
    return Y;
}

static dense inverse(dense M)
{
    dense I = identity(M.n);
    for (int c = 0; c < M.n; c++) {
        int best = c;
        for (int i = c; i < M.n; i++) best = fabs(M.x[i][c]) > fabs(M.x[best][c]) ? i : best;
        for (int j = 0; j < M.n; j++) {
            double m = M.x[c][j], i = I.x[c][j];
            M.x[c][j] = M.x[best][j], M.x[best][j] = m;
            I.x[c][j] = I.x[best][j], I.x[best][j] = i;
        }
        double pivot = M.x[c][c];
        for (int j = 0; j < M.n; j++) M.x[c][j] /= pivot, I.x[c][j] /= pivot;
        for (int i = 0; i < M.n; i++) {
            double f = M.x[i][c];
            for (int j = 0; i != c && j < M.n; j++) M.x[i][j] -= f * M.x[c][j], I.x[i][j] -= f * I.x[c][j];
        }
    }
    return I;
}

static void times(const dense *M, const double *x, double *y)
{
    for (int i = 0; i < M->n; i++) {
        y[i] = 0;
        for (int j = 0; j < M->n; j++) y[i] += M->x[i][j] * x[j];
    }
}

static double largest(const dense *M)
{
    double max = 0;
    for (int i = 0; i < M->n; i++) {
        for (int j = 0; j < M->n; j++) max = fmax(max, fabs(M->x[i][j]));
    }
    return max;
}

static double frobenius(const dense *M)
{
    double sum = 0;
    for (int i = 0; i < M->n; i++) {
        for (int j = 0; j < M->n; j++) sum += M->x[i][j] * M->x[i][j];
    }
    return sqrt(sum);
}

/* By power iteration. */
static double spectral(const dense *M)
{
    dense T = transpose(M), G = product(&T, M);
    double x[MAX], y[MAX], norm = 0;
    for (int i = 0; i < M->n; i++) x[i] = 1 + 0.1 * i;
    for (int k = 0; k < 3000; k++) {
        times(&G, x, y);
        norm = 0;
        for (int i = 0; i < M->n; i++) norm += y[i] * y[i];
        norm = sqrt(norm);
        for (int i = 0; norm > 0 && i < M->n; i++) x[i] = y[i] / norm;
    }
    return sqrt(norm);
}

/* min(F, sqrt(1-norm inf-norm)), as DESIGN has it. */
static double bound(const dense *M)
{
    double row = 0, column = 0;
    for (int i = 0; i < M->n; i++) {
        double r = 0, c = 0;
        for (int j = 0; j < M->n; j++) r += fabs(M->x[i][j]), c += fabs(M->x[j][i]);
        row = fmax(row, r), column = fmax(column, c);
    }
    return fmin(frobenius(M), sqrt(row * column));
}

/* M += sign x y'. */
static void add_outer(dense *M, double sign, const double *x, const double *y)
{
    for (int i = 0; i < M->n; i++) {
        for (int j = 0; j < M->n; j++) M->x[i][j] += sign * x[i] * y[j];
    }
}

static psgd_precond *make(const char *source, int64_t n, const char *norm, double step, int pairs)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_options_set_number(options, "step", step));
    assert_ok(psgd_options_set_number(options, "pairs", pairs));
    assert_ok(psgd_options_set_number(options, "init-scale", 0.75));
    assert_ok(psgd_precond_create(NULL, source, 1, &n, REAL_DTYPE, options, &precond));
    psgd_options_free(options);
    return precond;
}

static dense factor(const psgd_precond *precond, int n)
{
    real Q[MAX * MAX];
    dense M = {.n = n};
    assert_ok(psgd_precond_factor(precond, 0, Q));
    for (int i = 0; i < n * n; i++) M.x[i / n][i % n] = (double)Q[i];
    return M;
}

static void assert_close(const dense *X, const dense *Y, const char *what)
{
    for (int i = 0; i < X->n; i++) {
        for (int j = 0; j < X->n; j++) {
            if (fabs(X->x[i][j] - Y->x[i][j]) <= tolerance * fmax(1, largest(Y))) continue;
            print_error("%s: (%d, %d) is %.12g, expected %.12g\n", what, i, j, X->x[i][j], Y->x[i][j]);
            fail();
        }
    }
}

/* c of a step: running is that of "second". Sizes are of R as a mean over the pairs. */
static double step_of(const char *norm, double step, double max, double size, double second, double *running)
{
    if (!strcmp(norm, "none")) return 2 * step;
    if (!strcmp(norm, "max")) return max > 0 ? step / max : 0;
    if (!strcmp(norm, "spectral")) return size > 0 ? step / size : 0;
    *running = fmax(0.9 * *running + 0.1 * second, second);
    return second > 0 ? step / *running : 0;
}

typedef struct lra_parts {
    dense UVt;
    double d[MAX], U[MAX][MAX], V[MAX][MAX]; /* [n][r] */
} lra_parts;

static lra_parts read_lra(const psgd_precond *precond, int n)
{
    const lra *l = precond->root;
    lra_parts p = {.UVt = {.n = n}};
    for (int i = 0; i < n; i++) {
        p.d[i] = (double)l->d[i];
        for (int j = 0; j < l->r; j++) {
            p.U[i][j] = (double)l->u[j * n + i];
            p.V[i][j] = (double)l->v[j * n + i];
        }
    }
    return p;
}

/* I + UV' and Q of the parts. */
static dense lra_core(const lra_parts *p, int n, int r)
{
    dense M = identity(n);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            for (int k = 0; k < r; k++) M.x[i][j] += p->U[i][k] * p->V[j][k];
        }
    }
    return M;
}

static dense lra_dense(const lra_parts *p, int n, int r)
{
    dense M = lra_core(p, n, r);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) M.x[i][j] *= p->d[j];
    }
    return M;
}

static double norm2(int n, const double *x)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* The rule of arXiv 2211.04422 in the words of the issue, on dense matrices. */
static void lra_reference(lra_parts *p, int n, int r, int pairs, bool on_v, const char *norm, double step, real *v,
                          real *h, double running[3])
{
    dense core = lra_core(p, n, r), Q = lra_dense(p, n, r), Qt = transpose(&Q), P = product(&Qt, &Q), Pi = inverse(P),
          Qit = inverse(Qt), R = {.n = n}, S = {.n = n}, W = {.n = n};
    double g[MAX] = {0}, both[MAX] = {0}, size = 0, second = 0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            for (int k = 0; k < r; k++) W.x[i][j] += on_v ? p->U[i][k] * p->U[j][k] : p->V[i][k] * p->V[j][k];
        }
    }
    for (int k = 0; k < pairs; k++) {
        double x[MAX], y[MAX], Ph[MAX], Pv[MAX], a[MAX], b[MAX], Wa[MAX], Wb[MAX];
        dense one = {.n = n};
        for (int i = 0; i < n; i++) x[i] = (double)h[k * n + i], y[i] = (double)v[k * n + i];
        times(&P, x, Ph);
        times(&Pi, y, Pv);
        times(&Q, x, a);
        times(&Qit, y, b);
        times(&W, a, Wa);
        times(&W, b, Wb);
        for (int i = 0; i < n; i++) {
            g[i] += (x[i] * Ph[i] - y[i] * Pv[i]) / pairs;
            both[i] += (fabs(x[i] * Ph[i]) + fabs(y[i] * Pv[i])) / pairs;
        }
        add_outer(&S, 1.0 / pairs, a, a);
        add_outer(&S, -1.0 / pairs, b, b);
        add_outer(&one, 1.0 / pairs, a, Wa);
        add_outer(&one, -1.0 / pairs, b, Wb);
        size += spectral(&one);
        second += (norm2(n, a) * norm2(n, Wa) + norm2(n, b) * norm2(n, Wb)) / pairs;
    }
    double max = 0, max_both = 0;
    for (int i = 0; i < n; i++) max = fmax(max, fabs(g[i])), max_both = fmax(max_both, both[i]);
    R = on_v ? product(&W, &S) : product(&S, &W);
    double c_d = step_of(norm, step, max, max, max_both, &running[0]);
    double c = r ? step_of(norm, step, largest(&R), size, second, &running[on_v ? 2 : 1]) : 0;

    /* I + UV' <- (I - cR)(I + UV') by moving U or V alone. */
    dense move = identity(n);
    lra_parts old = *p;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < r; j++) {
            double sum = 0;
            if (on_v) { /* (I + VU') S U */
                for (int m = 0; m < n; m++) {
                    double SU = 0;
                    for (int t = 0; t < n; t++) SU += S.x[m][t] * old.U[t][j];
                    sum += core.x[m][i] * SU;
                }
                p->V[i][j] -= c * sum;
            } else { /* S V (I + V'U) */
                for (int m = 0; m < r; m++) {
                    double SV = 0, VU = m == j;
                    for (int t = 0; t < n; t++) SV += S.x[i][t] * old.V[t][m], VU += old.V[t][m] * old.U[t][j];
                    sum += SV * VU;
                }
                p->U[i][j] -= c * sum;
            }
        }
        p->d[i] -= c_d * g[i] * p->d[i];
    }
    /* The two ways to write it agree. */
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) move.x[i][j] -= c * R.x[i][j];
    }
    dense moved = product(&move, &core), now = lra_core(p, n, r);
    for (int i = 0; i < n * n; i++) {
        assert_true(fabs(moved.x[i / n][i % n] - now.x[i / n][i % n]) < 1e-9 * fmax(1, largest(&moved)));
    }
}

static const char *const norms[] = {"max", "spectral", "second", "none"};

static void lra_follows_its_rule(void **state)
{
    (void)state;
    enum { N = 7 };
    uint64_t seed = 11;
    for (int r = 0; r <= 3; r++) {
        for (int which = 0; which < 4; which++) {
            for (int pairs = 1; pairs <= 2; pairs++) {
                char source[32];
                double step = which == 3 ? 0.002 : 0.1, running[3] = {0};
                snprintf(source, sizeof source, "lra(%d)", r);
                psgd_precond *precond = make(source, N, norms[which], step, pairs);
                for (int t = 0; t < 6; t++) {
                    real v[2 * N], h[2 * N];
                    for (int i = 0; i < pairs * N; i++) {
                        v[i] = (real)random_normal(&seed);
                        h[i] = (real)(random_normal(&seed) + (1 + i % 3) * (double)v[i]);
                    }
                    lra_parts p = read_lra(precond, N);
                    lra_reference(&p, N, r, pairs, t % 2 == 1, norms[which], step, v, h, running);
                    assert_ok(psgd_precond_update_pairs(precond, pairs, v, h));
                    dense Q = factor(precond, N), expected = lra_dense(&p, N, r);
                    assert_close(&Q, &expected, norms[which]);
                }
                assert_int_equal(psgd_precond_skipped(precond), 0);
                psgd_precond_free(precond);
            }
        }
    }
}

typedef struct splu_parts {
    dense L, U;
} splu_parts;

static dense read_half(const splu *s, const splu_half *half)
{
    int r = (int)s->r, n = (int)s->base.n;
    dense M = {.n = n};
    for (int i = 0; i < r; i++) {
        for (int j = 0; j <= i; j++) M.x[i][j] = (double)half->T[i * r + j];
    }
    for (int i = r; i < n; i++) {
        for (int j = 0; j < r; j++) M.x[i][j] = (double)half->X[j * s->m + i - r];
        M.x[i][i] = (double)half->d[i - r];
    }
    return M;
}

/* Keeps the pattern of L. */
static void arrow(dense *M, int r)
{
    for (int i = 0; i < M->n; i++) {
        for (int j = 0; j < M->n; j++) {
            if (!(i == j || (j < r && j <= i))) M->x[i][j] = 0;
        }
    }
}

static void splu_reference(splu_parts *p, int n, int r, int pairs, const char *norm, double step, real *v, real *h,
                           double running[2])
{
    dense Q = product(&p->L, &p->U), Qt = transpose(&Q), P = product(&Qt, &Q), Pi = inverse(P), Qit = inverse(Qt);
    dense RL = {.n = n}, RU = {.n = n}, SL = {.n = n}, SU = {.n = n};
    for (int k = 0; k < pairs; k++) {
        double x[MAX], y[MAX], Ph[MAX], Pv[MAX], a[MAX], b[MAX];
        for (int i = 0; i < n; i++) x[i] = (double)h[k * n + i], y[i] = (double)v[k * n + i];
        times(&P, x, Ph);
        times(&Pi, y, Pv);
        times(&Q, x, a);
        times(&Qit, y, b);
        add_outer(&RL, 1.0 / pairs, a, a);
        add_outer(&RL, -1.0 / pairs, b, b);
        add_outer(&RU, 1.0 / pairs, Ph, x);
        add_outer(&RU, -1.0 / pairs, y, Pv);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                SL.x[i][j] += (fabs(a[i] * a[j]) + fabs(b[i] * b[j])) / pairs;
                SU.x[i][j] += (fabs(x[i] * Ph[j]) + fabs(Pv[i] * y[j])) / pairs; /* transposed: lower */
            }
        }
    }
    dense RUt = transpose(&RU);
    arrow(&RL, r);
    arrow(&RUt, r);
    arrow(&SL, r);
    arrow(&SU, r);
    RU = transpose(&RUt);
    double cL = step_of(norm, step, largest(&RL), bound(&RL), bound(&SL), &running[0]);
    double cU = step_of(norm, step, largest(&RU), bound(&RU), bound(&SU), &running[1]);
    dense ML = identity(n), MU = identity(n);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) ML.x[i][j] -= cL * RL.x[i][j], MU.x[i][j] -= cU * RU.x[i][j];
    }
    p->L = product(&ML, &p->L);
    p->U = product(&p->U, &MU);
}

static void splu_follows_its_rule(void **state)
{
    (void)state;
    uint64_t seed = 5;
    enum { N = 7 };
    static const int ranks[] = {0, 1, 3, 7, 9};
    for (int which = 0; which < 4; which++) {
        for (size_t which_r = 0; which_r < 5; which_r++) {
            for (int pairs = 1; pairs <= 2; pairs++) {
                char source[32];
                int r = ranks[which_r];
                double step = which == 3 ? 0.002 : 0.1, running[2] = {0};
                snprintf(source, sizeof source, "splu(%d)", r);
                psgd_precond *precond = make(source, N, norms[which], step, pairs);
                for (int t = 0; t < 5; t++) {
                    real v[2 * N], h[2 * N];
                    for (int i = 0; i < pairs * N; i++) {
                        v[i] = (real)random_normal(&seed);
                        h[i] = (real)(random_normal(&seed) + (1 + i % 3) * (double)v[i]);
                    }
                    const splu *s = precond->root;
                    dense Ut = read_half(s, &s->U);
                    splu_parts p = {.L = read_half(s, &s->L), .U = transpose(&Ut)};
                    splu_reference(&p, N, r < N ? r : N, pairs, norms[which], step, v, h, running);
                    assert_ok(psgd_precond_update_pairs(precond, pairs, v, h));
                    dense Q = factor(precond, N), expected = product(&p.L, &p.U);
                    assert_close(&Q, &expected, norms[which]);
                }
                assert_int_equal(psgd_precond_skipped(precond), 0);
                psgd_precond_free(precond);
            }
        }
    }
}

/* Every operator against the dense Q, after some updates, for one that stands in a sum too. */
static void operators_match_dense(void **state)
{
    (void)state;
    enum { N = 9 };
    static const char *const specs[] = {
        "lra(2)", "splu(2)", "lra(0)", "splu(0)", "sum(lra(2):4,splu(1))", "sum(tri:3,lra(1):4,diag)"};
    static const psgd_operator operators[] = {PSGD_APPLY_Q,         PSGD_APPLY_QT,         PSGD_APPLY_P,
                                              PSGD_APPLY_Q_INVERSE, PSGD_APPLY_QT_INVERSE, PSGD_APPLY_P_INVERSE};
    uint64_t seed = 3;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        psgd_precond *precond = make(specs[s], N, "spectral", 0.2, 1);
        real v[N], h[N], x[N], y[N];
        for (int t = 0; t < 40; t++) {
            for (int i = 0; i < N; i++) {
                v[i] = (real)random_normal(&seed);
                h[i] = (real)(random_normal(&seed) + (double)(i + 1) / 4 * (double)v[i]);
            }
            assert_ok(psgd_precond_update(precond, v, h));
        }
        dense Q = factor(precond, N), Qt = transpose(&Q), Qi = inverse(Q), Qit = transpose(&Qi);
        dense all[] = {Q, Qt, product(&Qt, &Q), Qi, Qit, product(&Qi, &Qit)};
        for (int o = 0; o < 6; o++) {
            double from[N], to[N];
            for (int i = 0; i < N; i++) x[i] = (real)random_normal(&seed), from[i] = (double)x[i];
            times(&all[o], from, to);
            assert_ok(psgd_precond_apply(precond, operators[o], x, y));
            for (int i = 0; i < N; i++)
                assert_true(fabs((double)y[i] - to[i]) < 20 * tolerance * fmax(1, largest(&all[o])));
        }
        psgd_precond_free(precond);
    }
}

/* Many steps on the largest and smallest numbers, zeros and repeated pairs: nothing that is not finite. */
static void extremes_stay_finite(void **state)
{
    (void)state;
    enum { N = 5 };
    static const char *const specs[] = {"lra(2)", "splu(2)"};
    static const double scales[] = {1e-30, 1e-12, 1, 1e12, 1e30};
    uint64_t seed = 9;
    for (int s = 0; s < 2; s++) {
        for (int which = 0; which < 4; which++) {
            psgd_precond *precond = make(specs[s], N, norms[which], 0.5, 1);
            for (int t = 0; t < 600; t++) {
                real v[N], h[N], Q[N * N];
                double scale = scales[t / 40 % 5];
                for (int i = 0; i < N; i++) {
                    v[i] = (real)(t % 7 == 0 ? 0 : random_normal(&seed));
                    h[i] = (real)(t % 11 == 0 || i == 1 ? 0 : scale * random_normal(&seed));
                }
                assert_ok(psgd_precond_update(precond, v, h));
                assert_ok(psgd_precond_factor(precond, 0, Q));
                for (int i = 0; i < N * N; i++) assert_true(isfinite((double)Q[i]));
            }
            psgd_precond_free(precond);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lra_follows_its_rule),
        cmocka_unit_test(splu_follows_its_rule),
        cmocka_unit_test(operators_match_dense),
        cmocka_unit_test(extremes_stay_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
