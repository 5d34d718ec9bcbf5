/* The kernels on panels, of every instruction set that this machine runs, against plain loops in double. */
#include "support.h"

#include "la/array/dispatch.h"

enum { MAX = 40 * LA_PANEL * 3, DEEPEST = 3 * LA_PANEL };

#ifdef PSGD_REAL_F64
#define EPSILON 2.3e-16
#else
#define EPSILON 1.2e-7
#endif

typedef struct arrays {
    _Alignas(64) real A[2][40 * DEEPEST], B[2][DEEPEST * LA_PANEL], C[40 * (LA_PANEL + 5)], was[40 * (LA_PANEL + 5)];
} arrays;

static void fill(arrays *x, uint64_t seed)
{
    real *all = (real *)x;
    for (size_t i = 0; i < sizeof *x / sizeof *all; i++) all[i] = (real)random_normal(&seed);
    memcpy(x->was, x->C, sizeof x->C);
}

static real entry(const la_panel_product *t, int term, int64_t i, int64_t k)
{
    if (t->a_panel) return t->A[term][k / LA_PANEL * t->a_panel + i * LA_PANEL + k % LA_PANEL];
    return t->A[term][i * t->row + k * t->column];
}

/* Every entry of C, and that what is beside it stays. */
static void check_product(const la_panel_product *t, const arrays *x)
{
    for (int64_t i = 0; i < t->rows; i++) {
        for (int64_t j = 0; j < t->c_ld; j++) {
            int64_t at = i * t->c_ld + j;
            double want = t->add || j >= t->columns ? (double)x->was[at] : 0, terms = fabs(want);
            for (int e = 0; e < t->terms && j < t->columns; e++) {
                for (int64_t k = 0; k < t->depth[e]; k++) {
                    double term = (double)entry(t, e, i, k) * (double)t->B[e][k * LA_PANEL + j];
                    want += term;
                    terms += fabs(term);
                }
            }
            assert_true(fabs((double)x->C[at] - want) <= 8 * EPSILON * terms);
        }
    }
}

static void products_are_those_of_plain_loops(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 3, 4, 5, 6, 7, 11, 12, 13, 24, 29},
                         columns[] = {1, LA_PANEL / 4, LA_PANEL / 2 + 1, LA_PANEL - 1, LA_PANEL};
    static const int64_t depths[] = {1, LA_PANEL - 1, LA_PANEL, 2 * LA_PANEL + 3};
    arrays *x = aligned_alloc(64, sizeof *x);
    assert_non_null(x);
    uint64_t seed = 1;
    for (int table = 0; table < la_table_count(); table++) {
        for (int c = 0; c < 11 * 5 * 4 * 3; c++) {
            int64_t r = rows[c % 11], depth = depths[c / 55 % 4];
            int order = c / 220; /* by rows, by columns, in panels */
            fill(x, ++seed);
            la_panel_product t = {.rows = r,
                                  .columns = columns[c / 11 % 5],
                                  .row = order == 0 ? DEEPEST : 1,
                                  .column = order == 0 ? 1 : 40,
                                  .a_panel = order == 2 ? r * LA_PANEL : 0,
                                  .b_ld = LA_PANEL,
                                  .c_ld = LA_PANEL + c % 6,
                                  .terms = c % 3,
                                  .depth = {depth, depth - 1},
                                  .A = {x->A[0], x->A[1]},
                                  .B = {x->B[0], x->B[1]},
                                  .alpha = 1,
                                  .add = c % 2,
                                  .C = x->C};
            la_table(table)->panel_product(&t);
            check_product(&t, x);
        }
    }
    free(x);
}

typedef struct panels {
    _Alignas(64) real Z[MAX], E[MAX], T[MAX], D[MAX], tD[MAX];
    real max[LA_PANEL], sum[LA_PANEL], spread[LA_PANEL], factor[LA_PANEL], mean[LA_PANEL], shift[LA_PANEL];
} panels;

static void run_panels(const la_kernels *k, int64_t rows, panels *p)
{
    uint64_t seed = 3;
    memset(p, 0, sizeof *p);
    for (int64_t i = 0; i < rows * LA_PANEL; i++) p->Z[i] = (real)(8 * random_normal(&seed));
    for (int j = 0; j < LA_PANEL; j++) {
        p->factor[j] = (real)random_normal(&seed);
        p->mean[j] = (real)random_normal(&seed);
        p->shift[j] = (real)random_normal(&seed);
    }
    k->panel_exp(rows, p->Z, p->max, p->sum, p->E);
    k->panel_spread(rows, p->Z, p->E, p->spread, p->T);
    k->panel_weigh_both(rows, &(la_weights){p->factor, p->mean, p->shift}, p->E, p->T, p->D, p->tD);
    for (int64_t i = 0; i < rows * LA_PANEL; i++) assert_true(p->T[i] == p->Z[i]);
    k->panel_weigh(rows, p->factor, p->E, p->T);
    for (int64_t i = 0; i < rows * LA_PANEL; i++) assert_true(p->T[i] == p->D[i]);
}

/* terms: what the sums of absolute values are at most */
static void assert_close(double got, double want, double terms)
{
    if (!(fabs(got - want) <= 16 * EPSILON * terms)) print_error("%.9g is not %.9g\n", got, want);
    assert_true(fabs(got - want) <= 16 * EPSILON * terms);
}

static void softmax_is_that_of_plain_loops(void **state)
{
    (void)state;
    panels *p = aligned_alloc(64, sizeof *p);
    assert_non_null(p);
    for (int c = 0; c < 4 * la_table_count(); c++) {
        int64_t rows = (int64_t[]){1, 2, 13, 100}[c % 4];
        run_panels(la_table(c / 4), rows, p);
        for (int j = 0; j < LA_PANEL; j++) {
            double max = -INFINITY, sum = 0, spread = 0, size = 0;
            for (int64_t i = 0; i < rows; i++) max = fmax(max, (double)p->Z[i * LA_PANEL + j]);
            assert_true((double)p->max[j] == max);
            for (int64_t i = j; i < rows * LA_PANEL; i += LA_PANEL) {
                double z = (double)p->Z[i], e = exp(z - max), d = (double)p->factor[j] * e;
                double td = d * (z - (double)p->mean[j]) + (double)p->shift[j] * e;
                sum += e;
                spread += e * z;
                size += fabs(e * z);
                double wide = 1 + max - z; /* z - most is rounded before it is an exponent */
                assert_close((double)p->E[i], e, e * wide);
                assert_close((double)p->D[i], d, fabs(d) * wide);
                assert_close((double)p->tD[i], td, (fabs(d) * (fabs(z) + 9) + 9 * e) * wide);
            }
            assert_close((double)p->sum[j], sum, 4 * sum);
            assert_close((double)p->spread[j], spread, 4 * size);
        }
    }
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_plain_loops),
        cmocka_unit_test(softmax_is_that_of_plain_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
