/* Every table of kernels against the portable one, to rounding: sums may come in another order and products be fused.
 */
#include "support.h"

#include <float.h>

#include "la/array/dispatch.h"

enum { COUNT = 2500 };

typedef struct arrays {
    real a[COUNT], b[COUNT], c[COUNT], d[COUNT], e[COUNT], f[COUNT], g[COUNT], h[COUNT];
    double s[COUNT], t[COUNT], value[8];
} arrays;

static void fill(arrays *x, uint64_t seed)
{
    real *all[] = {x->a, x->b, x->c, x->d, x->e, x->f};
    memset(x, 0, sizeof *x);
    for (int k = 0; k < 6; k++) {
        for (int i = 0; i < COUNT; i++) all[k][i] = (real)random_normal(&seed);
    }
    for (int i = 0; i < COUNT; i++) {
        x->b[i] = (real)(1 + fabs((double)x->b[i]));
        x->s[i] = random_normal(&seed);
        x->t[i] = random_normal(&seed);
    }
}

static void run_elementwise(const la_kernels *k, int64_t n, arrays *x)
{
    k->scale(n, (real)1.7, x->a);
    k->mul(n, x->b, x->c);
    k->div(n, x->b, x->d);
    k->axpy(n, (real)-0.3, x->a, x->e);
    x->value[0] = k->dot(n, x->a, x->d);
    x->value[1] = (double)k->max_abs(n, x->e);
    x->value[2] = (double)k->copy_max(n, x->c, x->f);
    x->value[3] = (double)k->damp_max(n, x->c, (real)0.5, x->d, x->a);
    k->add_squares(n, -1.5, x->c, x->s);
    k->add_products(n, 2.5, x->d, (real)0.7, x->t);
    x->value[4] = k->row_dot(n, x->a, x->d);
}

static void run_triangle(const la_kernels *k, int64_t n, arrays *x)
{
    const real some[4] = {(real)0.2, (real)-0.4, (real)0.3, (real)0.9};
    const real *rows[4] = {x->a, x->c, x->d, x->e};
    real *own[4] = {x->a, x->c, x->d, x->e};
    k->row_form(n, (real)0.3, x->a, x->b, x->f, x->value);
    k->rows_form(n, some, rows, x->b, x->f, x->value + 1);
    k->row_retract(n, (real)0.01, (real)0.6, (real)-0.8, x->a, x->b, x->f);
    k->rows_retract(n, (real)0.01, some, some + 0, own, x->b, x->f);
    int64_t few = n < 600 ? n : 600;
    k->row_retract_four(few, some, some + 0, x->a, few, x->h);
    k->packed_square(n < 66 ? n : 66, x->a, x->c, x->g); /* 66 * 67 / 2 elements are there */
}

static void run_steps(const la_kernels *k, int64_t n, arrays *x)
{
    step_rule r = {.keep = (real)0.9, .rate = (real)0.1, .l2 = (real)0.2, .decay1 = (real)0.8, .gain1 = (real)0.2};
    r.correct1 = 2, r.correct2 = 3, r.epsilon = (real)0.5, r.decay2 = 0.7, r.gain2 = 0.3;
    k->step_plain(n, &r, x->a, x->c, x->g);
    k->step_momentum(n, &r, x->a, x->d, x->c, x->h);
    k->step_rms(n, &r, x->a, x->b, x->c, x->e);
    k->step_adam(n, &r, x->a, x->d, x->b, x->e, x->f);
    r.inside = r.ahead = true;
    k->step_momentum(n, &r, x->a, x->d, x->e, x->g);
    k->step_rms(n, &r, x->a, x->b, x->c, x->e);
    k->step_adam(n, &r, x->a, x->d, x->b, x->c, x->c);
}

static void run_fused(const la_kernels *k, int64_t n, arrays *x)
{
    x->value[4] = (double)k->diag_fused(n, x->b, x->a, x->c, (real)0.1, -1, x->d, false);
    x->value[5] = (double)k->diag_fused(n, x->b, x->c, x->a, 0, 1, x->e, true);
    k->retract(n, (real)0.01, x->d, (real)0.5, x->b);
    la_entry_rule rule = {.damping = (real)0.2, .step = (real)0.1, .floor = 0, .ceiling = 9, .min = 1, .max = 2};
    k->diag_entries(n, &rule, x->d, x->e, x->b);
    k->diag_apply(n, x->b, x->c, x->a, true);
    k->diag_apply(n, x->b, x->c, x->d, false);
    x->value[6] = k->row_apply(n, 2, x->b, x->c, (real)0.3, x->f, x->c, false);
    x->value[7] = k->row_apply(n, 2, x->b, x->c, (real)0.3, x->f, x->e, false);
    k->row_apply(n, 2, x->b, x->c, 0, NULL, x->g, false);
    int64_t some = n > 3 ? n - 3 : 0; /* rows that start anywhere */
    x->value[6] += k->row_apply(some, 2, x->b, x->c, (real)0.3, x->f, x->g + 3, true);
    k->row_apply(some, 2, x->b, x->c, 0, NULL, x->h + 1, true);
}

enum {
    BORDERED_ROWS = 29,
    BORDERED_COLUMNS = 1100
}; /* two blocks of rows, a group and two rows; rows short and long */

typedef struct bordered {
    real x[BORDERED_ROWS * BORDERED_COLUMNS], y[BORDERED_ROWS * BORDERED_COLUMNS], row[BORDERED_ROWS];
    real p[BORDERED_COLUMNS], r[BORDERED_COLUMNS], c[BORDERED_COLUMNS], e[BORDERED_COLUMNS], few[2][BORDERED_COLUMNS];
    double sums[BORDERED_ROWS], columns[2][BORDERED_COLUMNS];
} bordered;

static void fill_bordered(bordered *t, uint64_t seed)
{
    real *all[] = {t->x, t->y, t->c, t->e};
    const int64_t count[] = {BORDERED_ROWS * BORDERED_COLUMNS, BORDERED_ROWS * BORDERED_COLUMNS, BORDERED_COLUMNS,
                             BORDERED_COLUMNS};
    memset(t, 0, sizeof *t);
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < count[k]; i++) all[k][i] = (real)random_normal(&seed);
    }
    for (int i = 0; i < BORDERED_ROWS; i++) t->row[i] = (real)(1 + fabs(random_normal(&seed)));
    for (int j = 0; j < BORDERED_COLUMNS; j++) {
        t->p[j] = (real)(1 + fabs(random_normal(&seed)));
        t->r[j] = 1 / t->p[j];
    }
}

static void run_bordered(const la_kernels *k, int64_t rows, int64_t columns, int kind, bordered *t)
{
    bool side = kind & 1, swapped = side && kind & 8;
    la_bordered_pass pass = {.columns = columns,
                             .x = t->x,
                             .y = t->y,
                             .row = t->row,
                             .p = t->p,
                             .r = t->r,
                             .c = side ? t->c : NULL,
                             .e = side ? t->e : NULL,
                             .x_damping = kind & 2 && !swapped ? (real)0.2 : 0,
                             .y_damping = kind & 2 && swapped ? (real)0.2 : 0,
                             .plus = kind & 4,
                             .swapped = swapped};
    bool same = sizeof(real) == sizeof(double);
    for (int64_t j = 0; !same && j < columns; j++) {
        t->columns[0][j] = NAN;
        if (pass.c) t->columns[1][j] = NAN;
    }
    la_column_sums sums = {t->columns[0], t->columns[1], same ? (real *)(void *)t->columns[0] : t->few[0],
                           same ? (real *)(void *)t->columns[1] : t->few[1]};
    k->bordered_fused(&pass, 0, rows, t->sums, &sums);
}

/* Sums of some thousand numbers below a hundred: relative to the largest. */
static void compare_sums(int64_t n, const double *got, const double *want)
{
    double max = 1;
    for (int64_t i = 0; i < n; i++) max = fmax(max, fabs(want[i]));
    for (int64_t i = 0; i < n; i++) assert_true(fabs(got[i] - want[i]) <= 500 * (double)REAL_EPSILON * max);
}

/* That the sums are right is for test_typed_thin.c. */
static void bordered_kernels_agree(void **state)
{
    (void)state;
    const int64_t sizes[] = {2, 3, 16, 33, 257, 513, 640, BORDERED_COLUMNS};
    bordered *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    assert_true(want && got);
    for (int i = 0; i < 8 * 16; i++) {
        int64_t n = sizes[i % 8], rows = i % 5 ? BORDERED_ROWS : i % BORDERED_ROWS;
        fill_bordered(want, (uint64_t)i + 1);
        run_bordered(la_table(0), rows, n, i / 8, want);
        for (int t = 1; t < la_table_count(); t++) {
            fill_bordered(got, (uint64_t)i + 1);
            run_bordered(la_table(t), rows, n, i / 8, got);
            compare_sums(BORDERED_ROWS, got->sums, want->sums);
            compare_sums(n, got->columns[0], want->columns[0]);
            compare_sums(n, got->columns[1], want->columns[1]);
            for (int64_t j = 0; j < n; j++) assert_true(got->few[0][j] == 0 && got->few[1][j] == 0);
        }
    }
    free(want);
    free(got);
}

/* d and e are the halves of one array, as in a group; an R likewise. */
static void run_cross(const la_kernels *k, int64_t n, arrays *x)
{
    int64_t size = n < COUNT / 2 ? n : COUNT / 2, pairs = size / 2;
    real largest = 0, spectral = 0;
    for (int64_t i = 0; i < size; i++) x->e[i] *= (real)0.1;
    la_cross_pairs p = {.size = size, .d = x->b, .e = x->e, .h = x->c, .v = x->d};
    k->cross_fused(pairs, &p, (real)0.2, -1, x->a, false, &largest, &spectral);
    memcpy(x->f, x->b, (size_t)size * sizeof(real));
    memcpy(x->f + size, x->e, (size_t)size * sizeof(real));
    k->cross_fused(pairs, &p, 0, 1, x->a, true, &largest, &spectral);
    x->value[0] = (double)largest;
    x->value[1] = (double)spectral;
    k->cross_retract(pairs, &p, (real)0.01, x->a, x->f);
    k->cross_apply(pairs, &p, x->c, x->c, false);
    k->cross_apply(pairs, &p, x->d, x->h, false);
    k->cross_apply(pairs, &p, x->d, x->g, true);
}

/* Values grow to a few thousand in these runs; each is the result of at most some thousand rounded operations whose
 * errors mostly cancel. */
/* All maps of both windows: 36 or 64 rows of at most 39 samples. */
static void run_points(const la_kernels *k, int64_t n, arrays *x)
{
    const real *from[64];
    real *to[64];
    n %= COUNT / 64 + 1;
    for (int i = 0; i < 64; i++) {
        from[i] = x->a + i * n;
        to[i] = x->c + i * n;
    }
    for (int kind = 0; kind <= LA_POINT_BACK_WEIGHTS; kind++) {
        k->points((la_point_map)kind, 3, n, from, (real)0.5, kind % 2, to);
        k->points((la_point_map)kind, 5, n, from, 0, true, to);
    }
}

static void assert_close(double got, double want, double max)
{
    assert_true(fabs(got - want) <= 500 * (double)REAL_EPSILON * (max + fabs(want)));
}

static void compare(const arrays *got, const arrays *want)
{
    const real *g[] = {got->a, got->b, got->c, got->d, got->e, got->f, got->g, got->h};
    const real *w[] = {want->a, want->b, want->c, want->d, want->e, want->f, want->g, want->h};
    for (int k = 0; k < 8; k++) {
        for (int i = 0; i < COUNT; i++) assert_close((double)g[k][i], (double)w[k][i], 1);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_close(got->s[i], want->s[i], 1);
        assert_close(got->t[i], want->t[i], 1);
    }
    for (int i = 0; i < 8; i++) assert_close(got->value[i], want->value[i], 100);
}

static void tables_agree(void (*run)(const la_kernels *, int64_t, arrays *))
{
    const int64_t sizes[] = {0, 1, 3, 16, 17, 63, 64, 65, 1000, 1024, 1025, COUNT};
    arrays *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    assert_true(want && got);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        fill(want, s + 1);
        run(la_table(0), sizes[s], want);
        for (int t = 1; t < la_table_count(); t++) {
            fill(got, s + 1);
            run(la_table(t), sizes[s], got);
            compare(got, want);
        }
    }
    free(want);
    free(got);
}

static void elementwise_kernels_agree(void **state)
{
    (void)state;
    tables_agree(run_elementwise);
}

static void steps_of_optimizers_agree(void **state)
{
    (void)state;
    tables_agree(run_steps);
}

static void triangle_kernels_agree(void **state)
{
    (void)state;
    tables_agree(run_triangle);
}

static void fused_kernels_agree(void **state)
{
    (void)state;
    tables_agree(run_fused);
}

static void cross_kernels_agree(void **state)
{
    (void)state;
    tables_agree(run_cross);
}

static void point_kernels_agree(void **state)
{
    (void)state;
    tables_agree(run_points);
}

static void maxima_see_what_is_not_finite(void **state)
{
    (void)state;
    arrays *x = malloc(sizeof *x);
    assert_non_null(x);
    for (int t = 0; t < la_table_count(); t++) {
        for (int64_t i = 0; i < 100; i += 33) {
            fill(x, 5);
            x->a[i] = (real)-INFINITY;
            assert_true(isinf((double)la_table(t)->max_abs(100, x->a)));
            assert_true(isinf((double)la_table(t)->copy_max(100, x->a, x->c)));
            x->a[i] = (real)NAN;
            assert_true(isnan((double)la_table(t)->max_abs(100, x->a)));
            assert_true(isnan((double)la_table(t)->diag_fused(100, x->b, x->a, x->c, 0, -1, x->d, false)));
        }
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_kernels_agree),     cmocka_unit_test(triangle_kernels_agree),
        cmocka_unit_test(fused_kernels_agree),           cmocka_unit_test(cross_kernels_agree),
        cmocka_unit_test(point_kernels_agree),           cmocka_unit_test(bordered_kernels_agree),
        cmocka_unit_test(maxima_see_what_is_not_finite), cmocka_unit_test(steps_of_optimizers_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
