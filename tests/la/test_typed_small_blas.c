/* Triangles on panels and outer products of fibres, every table of kernels, against plain loops in double. */
#include "support.h"

#include <float.h>

#include "la/matrix/blas.h"
#include "la/array/dispatch.h"

enum { MAX = 53, MAX_PANEL = 32, MANY = 1031 };

static const int64_t sides[] = {1, 2, 4, 5, 11, 12, 13, 24, 29, MAX};

/* A triangle whose inverse is tame; what does not belong to it is not a number. */
static void fill_triangle(uint64_t *seed, int64_t n, bool lower, real *T)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            bool inside = lower ? j <= i : j >= i;
            double x = i == j ? 1 + random_uniform(seed) : (random_uniform(seed) - 0.5) / sqrt((double)n);
            T[i * n + j] = inside ? (real)x : (real)NAN;
        }
    }
}

static void fill(uint64_t *seed, int64_t count, real *x)
{
    for (int64_t i = 0; i < count; i++) x[i] = (real)random_normal(seed);
}

static void assert_near(double got, double want, double size)
{
    assert_true(fabs(got - want) <= 40 * (double)REAL_EPSILON * size);
}

/* M x for one fibre, M_ik = T[i row + k column] where it is in the triangle. */
static void plain_mul(const la_tri *t, const double *x, double *y)
{
    for (int64_t i = 0; i < t->n; i++) {
        y[i] = 0;
        for (int64_t k = t->lower ? 0 : i; k < (t->lower ? i + 1 : t->n); k++) {
            y[i] += (double)t->T[i * t->row + k * t->column] * x[k];
        }
    }
}

static void check_triangle(const la_kernels *k, const la_tri *t, int64_t width, uint64_t *seed)
{
    _Alignas(64) real X[MAX * MAX_PANEL], Y[MAX * MAX_PANEL], Z[MAX * MAX_PANEL];
    fill(seed, t->n * k->panel, X);
    memcpy(Y, X, sizeof X);
    memcpy(Z, X, sizeof X);
    k->tri_mul(t, width, Y);
    k->tri_retract(t, width, (real)0.3, Z);
    for (int64_t j = 0; j < width; j++) {
        double x[MAX], y[MAX];
        for (int64_t i = 0; i < t->n; i++) x[i] = (double)X[i * k->panel + j];
        plain_mul(t, x, y);
        for (int64_t i = 0; i < t->n; i++) {
            assert_near((double)Y[i * k->panel + j], y[i], 5);
            assert_near((double)Z[i * k->panel + j], x[i] - (double)(real)0.3 * y[i], 5);
        }
    }
    k->tri_solve(t, width, Y);
    for (int64_t i = 0; i < t->n; i++) {
        for (int64_t j = 0; j < width; j++) assert_near((double)Y[i * k->panel + j], (double)X[i * k->panel + j], 100);
    }
}

static void panels_match_plain_loops(void **state)
{
    (void)state;
    uint64_t seed = 11;
    real T[MAX * MAX];
    for (int table = 0; table < la_table_count(); table++) {
        const la_kernels *k = la_table(table);
        assert_true(k->panel <= MAX_PANEL);
        for (size_t s = 0; s < sizeof sides / sizeof sides[0]; s++) {
            int64_t n = sides[s];
            for (int which = 0; which < 4; which++) {
                bool lower = which & 1, turned = which & 2;
                fill_triangle(&seed, n, lower, T);
                la_tri t = {T, n, turned ? 1 : n, turned ? n : 1, lower != turned};
                check_triangle(k, &t, 1, &seed);
                check_triangle(k, &t, k->panel / 2, &seed);
                check_triangle(k, &t, k->panel / 2 + 1, &seed);
                check_triangle(k, &t, k->panel, &seed);
            }
        }
    }
}

static void panels_hold_what_was_loaded(void **state)
{
    (void)state;
    uint64_t seed = 12;
    real x[(MAX + 3) * (MAX + 3)], y[(MAX + 3) * (MAX + 3)], P[MAX * MAX_PANEL], X[MAX * MAX_PANEL];
    int64_t apart = MAX + 3;
    for (int table = 0; table < la_table_count(); table++) {
        const la_kernels *k = la_table(table);
        for (int64_t width = 1; width <= k->panel; width += width < 3 ? 1 : k->panel / 4) {
            for (int turned = 0; turned < 2; turned++) {
                int64_t n = 3 + width % 5 * 12, entry = turned ? 1 : apart, fibre = turned ? apart : 1;
                fill(&seed, apart * apart, x);
                memset(y, 0, sizeof y);
                k->panel_load(n, width, x, entry, fibre, P);
                k->gather(width, n, x, entry, fibre, X);
                k->panel_store(n, width, P, y, entry, fibre);
                for (int64_t i = 0; i < n; i++) {
                    for (int64_t j = 0; j < k->panel; j++) {
                        real want = j < width ? x[i * entry + j * fibre] : 0;
                        assert_true(P[i * k->panel + j] == want);
                        if (j < width) assert_true(X[j * n + i] == want && y[i * entry + j * fibre] == want);
                    }
                }
                for (int64_t i = 0; i < apart * apart; i++) assert_true(y[i] == 0 || y[i] == x[i]);
            }
        }
    }
}

static void outer_products_match_plain_loops(void **state)
{
    (void)state;
    enum { COUNT = 37 };
    uint64_t seed = 13;
    static real X[(COUNT + 1) * MAX + MAX_PANEL], R[MAX * MAX], S[MAX * MAX];
    for (int table = 0; table < la_table_count(); table++) {
        const la_kernels *k = la_table(table);
        for (int64_t columns = 1; columns <= MAX; columns += 3) {
            int64_t rows = columns % (2 * k->block) + 1, from = columns % 3;
            bool add = columns % 2;
            fill(&seed, (COUNT + 1) * MAX, X);
            fill(&seed, MAX * MAX, R);
            memcpy(S, R, sizeof R);
            k->panel_product(&(la_panel_product){.rows = rows,
                                                 .columns = columns,
                                                 .terms = 1,
                                                 .depth = {COUNT},
                                                 .A = {X},
                                                 .B = {X + from},
                                                 .row = 1,
                                                 .column = MAX,
                                                 .b_ld = MAX,
                                                 .c_ld = MAX,
                                                 .alpha = -1,
                                                 .add = add,
                                                 .C = R});
            for (int64_t i = 0; i < MAX; i++) {
                for (int64_t j = 0; j < MAX; j++) {
                    double want = (double)S[i * MAX + j];
                    if (i < rows && j < columns) {
                        if (!add) want = 0;
                        for (int64_t l = 0; l < COUNT; l++) {
                            want -= (double)X[l * MAX + i] * (double)X[l * MAX + from + j];
                        }
                    }
                    assert_near((double)R[i * MAX + j], want, COUNT);
                }
            }
        }
    }
}

/* On both sides of the limit below which the kernels do it, and on tensors of several matrices. */
static void products_of_views_match_plain_loops(void **state)
{
    (void)state;
    uint64_t seed = 14;
    static const struct {
        int64_t n, inner, outer;
    } shapes[] = {{1, 1, 1}, {7, 1, 40}, {40, 3, 4}, {130, 67, 2}, {300, 1, 129}, {MANY, 2, 2}, {MANY, 1, 3}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        int64_t n = shapes[s].n, inner = shapes[s].inner, fibres = inner * shapes[s].outer;
        real *T = malloc((size_t)(n * n) * sizeof(real)), *R = malloc((size_t)(n * n) * sizeof(real));
        real *A = malloc((size_t)(n * fibres) * sizeof(real)), *B = malloc((size_t)(n * fibres) * sizeof(real));
        real *a = malloc((size_t)(n * fibres) * sizeof(real)), *b = malloc((size_t)(n * fibres) * sizeof(real));
        assert_true(T && R && A && B && a && b);
        for (int lower = 0; lower < 2; lower++) {
            view X = inner == 1 ? view_rows(A, n, fibres) : view_columns(A, n, inner);
            X.outer = shapes[s].outer;
            fill_triangle(&seed, n, lower, T);
            fill(&seed, n * fibres, A);
            fill(&seed, n * fibres, B);
            memcpy(a, A, (size_t)(n * fibres) * sizeof(real));
            memcpy(b, B, (size_t)(n * fibres) * sizeof(real));

            /* A <- TA, B <- T^-T B and back; T'T twice undone. */
            la_tri_form(T, lower, X, view_over(X, B));
            la_sym_outer(X, view_over(X, B), -1, lower, false, R);
            for (int64_t i = 0; i < n; i += 1 + n / 7) {
                for (int64_t j = lower ? 0 : i; j < (lower ? i + 1 : n); j += 1 + n / 5) {
                    double want = 0, size = 1;
                    for (int64_t o = 0; o < X.outer; o++) {
                        for (int64_t l = 0; l < inner; l++) {
                            int64_t p = o * X.ld + i * inner + l, q = o * X.ld + j * inner + l;
                            want += (double)A[p] * (double)A[q] - (double)B[p] * (double)B[q];
                            size += fabs((double)A[p] * (double)A[q]) + fabs((double)B[p] * (double)B[q]);
                        }
                    }
                    assert_near((double)R[i * n + j], want, size);
                }
            }
            la_tri_solve(T, lower, false, X);
            la_tri_mul(T, lower, true, view_over(X, B));
            for (int64_t i = 0; i < n * fibres; i++) {
                assert_near((double)A[i], (double)a[i], 200);
                assert_near((double)B[i], (double)b[i], 200);
            }
            la_tri_square(T, lower, X);
            la_tri_solve(T, lower, true, X);
            la_tri_solve(T, lower, false, X);
            for (int64_t i = 0; i < n * fibres; i++) assert_near((double)A[i], (double)a[i], 800);
        }
        real *all[] = {T, R, A, B, a, b};
        for (int i = 0; i < 6; i++) free(all[i]);
    }
}

/* Q <- Q - c R Q, entry by entry where there are few. */
static void retractions_match_plain_loops(void **state)
{
    (void)state;
    uint64_t seed = 15;
    static const int64_t all[] = {1, 5, 33, 100, MANY};
    for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
        for (int lower = 0; lower < 2; lower++) {
            int64_t n = all[s];
            size_t bytes = (size_t)(n * n) * sizeof(real);
            real *R = malloc(bytes), *Q = malloc(bytes), *old = malloc(bytes), *T = malloc(bytes);
            assert_true(R && Q && old && T);
            fill_triangle(&seed, n, lower, R);
            fill_triangle(&seed, n, lower, Q);
            memcpy(old, Q, bytes);
            memcpy(T, R, bytes);
            la_tri_retract(n, lower, (real)0.2, R, Q);
            for (int64_t i = 0; i < n; i += 1 + n / 50) {
                for (int64_t j = lower ? 0 : i; j < (lower ? i + 1 : n); j += 1 + n / 40) {
                    double sum = 0;
                    for (int64_t k = lower ? j : i; k <= (lower ? i : j); k++) {
                        sum += (double)T[i * n + k] * (double)old[k * n + j];
                    }
                    assert_near((double)Q[i * n + j], (double)old[i * n + j] - (double)(real)0.2 * sum, 10);
                }
            }
            real *arrays[] = {R, Q, old, T};
            for (int i = 0; i < 4; i++) free(arrays[i]);
        }
    }
}

/* Products of the sizes that have kernels of their own and of those that do not. */
static void small_products_match_plain_loops(void **state)
{
    (void)state;
    uint64_t seed = 16;
    static const int64_t shapes[][3] = {{2, 3, 5},       {61, 33, 40},    {13, 170, 64},
                                        {100, 31, 1024}, {100, 31, 1025}, {300, 64, 9}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        real *A = malloc((size_t)(m * k) * sizeof(real)), *B = malloc((size_t)(k * n) * sizeof(real));
        real *C = malloc((size_t)(m * n) * sizeof(real)), *D = malloc((size_t)(m * n) * sizeof(real));
        assert_true(A && B && C && D);
        for (int which = 0; which < 8; which++) {
            bool ta = which & 1, tb = which & 2;
            real beta = which & 4 ? 1 : 0;
            fill(&seed, m * k, A);
            fill(&seed, k * n, B);
            fill(&seed, m * n, C);
            memcpy(D, C, (size_t)(m * n) * sizeof(real));
            la_gemm(ta, tb, m, n, k, (real)0.5, A, ta ? m : k, B, tb ? k : n, beta, C, n);
            for (int64_t i = 0; i < m; i++) {
                for (int64_t j = 0; j < n; j++) {
                    double sum = 0;
                    for (int64_t l = 0; l < k; l++) {
                        sum += (double)A[ta ? l * m + i : i * k + l] * (double)B[tb ? j * k + l : l * n + j];
                    }
                    assert_near((double)C[i * n + j], 0.5 * sum + (double)beta * (double)D[i * n + j],
                                2 + sqrt((double)k));
                }
            }
        }
        real *all[] = {A, B, C, D};
        for (int i = 0; i < 4; i++) free(all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_match_plain_loops),         cmocka_unit_test(panels_hold_what_was_loaded),
        cmocka_unit_test(outer_products_match_plain_loops), cmocka_unit_test(products_of_views_match_plain_loops),
        cmocka_unit_test(retractions_match_plain_loops),    cmocka_unit_test(small_products_match_plain_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
