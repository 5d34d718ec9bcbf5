/* la_bordered_fused as a whole against its formula in double: rows in blocks, in threes and one by one, long rows and
 * short ones, one part and many, parts without a row; and the same bits on any number of threads. All memory is as long
 * as it must be and full of NaN before, so that no sum is made of what nobody has set. */
#include "support.h"

#include <float.h>

#include "core/dtype.h"
#include "la/fused/fused.h"

enum { MAX_ROWS = 640, MAX_COLUMNS = 1100 };

typedef struct inputs {
    real h[MAX_ROWS * MAX_COLUMNS], v[MAX_ROWS * MAX_COLUMNS];
    real row[MAX_ROWS], diagonal[MAX_COLUMNS], side[MAX_COLUMNS];
    double inverse[MAX_COLUMNS]; /* of the diagonal */
} inputs;

typedef enum side_kind { NO_SIDE, LAST_COLUMN, LAST_ROW } side_kind;

typedef struct bordered_case {
    int64_t rows, columns;
    side_kind side;
    double damping;
    int sign;
} bordered_case;

/* rows, then columns, then what is beside the last column. */
static int64_t sums_of(const bordered_case *c)
{
    return c->rows + 2 * c->columns;
}

/* Row i of A = Q1 (h + damping v) Q2' and B = Q1^-1 v Q2^-1; absolute: of the same with |h|, |v| and |Q2^-1|, what
 * rounding is relative to. */
static void plain_row(const inputs *x, const bordered_case *c, int64_t i, bool absolute, double *A, double *B)
{
    int64_t last = c->columns - 1;
    const real *h = x->h + i * c->columns, *v = x->v + i * c->columns, *d = x->diagonal;
    double q = (double)x->row[i], minus = (absolute ? 1 : -1) / (double)d[last];
    for (int64_t j = 0; j <= last; j++) {
        double b = (double)v[j], a = (double)h[j] + c->damping * b;
        if (absolute) {
            a = fabs((double)h[j]) + c->damping * fabs(b);
            b = fabs(b);
        }
        A[j] = a;
        B[j] = b;
    }
    double a_last = A[last], b_last = B[last], a_sum = 0, b_sum = 0;
    for (int64_t j = 0; j <= last; j++) {
        double side = c->side == NO_SIDE || j == last ? 0 : (double)x->side[j];
        if (absolute) side = fabs(side);
        a_sum += side * A[j];
        b_sum += minus * side * x->inverse[j] * B[j];
        A[j] = q * ((double)d[j] * A[j] + (c->side == LAST_COLUMN ? side * a_last : 0));
        B[j] = x->inverse[j] * (B[j] + (c->side == LAST_ROW ? minus * side * b_last : 0)) / q;
    }
    if (c->side == LAST_ROW) A[last] += q * a_sum;
    if (c->side == LAST_COLUMN) B[last] += b_sum / q;
}

static void plain(const inputs *x, const bordered_case *c, bool absolute, double *sums)
{
    int64_t n = c->columns, last = n - 1;
    double A[MAX_COLUMNS], B[MAX_COLUMNS], sign = absolute ? 1 : c->sign;
    double *columns = sums + c->rows, *beside = columns + n;
    memset(sums, 0, (size_t)sums_of(c) * sizeof *sums);
    for (int64_t i = 0; i < c->rows; i++) {
        plain_row(x, c, i, absolute, A, B);
        for (int64_t j = 0; j < n; j++) {
            double square = A[j] * A[j] + sign * B[j] * B[j];
            sums[i] += square;
            columns[j] += square;
            if (j < last) beside[j] += A[j] * A[last] + sign * B[j] * B[last];
        }
    }
}

static void *full_of_nan(int64_t count, size_t size)
{
    void *memory = malloc((size_t)count * size);
    assert_non_null(memory);
    memset(memory, 0xff, (size_t)count * size);
    return memory;
}

static double *fused(const inputs *x, const bordered_case *c, int threads)
{
    double *sums = full_of_nan(sums_of(c), sizeof *sums);
    la_bordered t = {.rows = c->rows,
                     .columns = c->columns,
                     .row = x->row,
                     .diagonal = x->diagonal,
                     .side = c->side == NO_SIDE ? NULL : x->side,
                     .side_is_row = c->side == LAST_ROW,
                     .scratch = full_of_nan(2 * la_bordered_ld(c->columns), sizeof(real)),
                     .sums = full_of_nan(la_bordered_sums(c->rows, c->columns), sizeof(double))};
    assert_ok(psgd_set_threads(threads));
    la_bordered_fused(&t, x->h, x->v, (real)c->damping, c->sign, sums, sums + c->rows, sums + c->rows + c->columns);
    free(t.scratch);
    free(t.sums);
    return sums;
}

/* Sums of a thousand rounded numbers, a hundred of them in the dtype. */
static void check(const inputs *x, const bordered_case *c)
{
    static double want[MAX_ROWS + 2 * MAX_COLUMNS], room[MAX_ROWS + 2 * MAX_COLUMNS];
    int64_t count = c->side == NO_SIDE ? c->rows + c->columns : sums_of(c) - 1;
    plain(x, c, false, want);
    plain(x, c, true, room);
    double *got = fused(x, c, 1);
    for (int64_t i = 0; i < count; i++) {
        if (fabs(got[i] - want[i]) <= 30 * (double)REAL_EPSILON * room[i]) continue;
        print_error("%lld x %lld, side %d, damping %g, sign %d: sum %lld is %.9g, not %.9g\n", (long long)c->rows,
                    (long long)c->columns, (int)c->side, c->damping, c->sign, (long long)i, got[i], want[i]);
        fail();
    }
    for (int threads = 2; threads <= 3; threads++) {
        double *again = fused(x, c, threads);
        assert_memory_equal(again, got, (size_t)count * sizeof *got);
        free(again);
    }
    free(got);
}

static inputs *random_inputs(void)
{
    inputs *x = malloc(sizeof *x);
    uint64_t seed = 5;
    assert_non_null(x);
    for (int64_t i = 0; i < MAX_ROWS * MAX_COLUMNS; i++) {
        x->h[i] = (real)(2 * random_uniform(&seed) - 1);
        x->v[i] = (real)(2 * random_uniform(&seed) - 1);
    }
    for (int64_t i = 0; i < MAX_ROWS; i++) x->row[i] = (real)(0.5 + random_uniform(&seed));
    for (int64_t j = 0; j < MAX_COLUMNS; j++) {
        x->diagonal[j] = (real)(0.5 + random_uniform(&seed));
        x->side[j] = (real)(random_uniform(&seed) - 0.5);
        x->inverse[j] = 1 / (double)x->diagonal[j];
    }
    return x;
}

static void sums_are_right_on_any_number_of_threads(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 11, 12, 13, 31, 32, 33, 95, 96, 97, 129, 511, 512, 529, 601, MAX_ROWS};
    static const int64_t columns[] = {1, 2, 3, 4, 5, 200, 257, 513, MAX_COLUMNS};
    int threads = psgd_threads(), chosen = 0;
    inputs *x = random_inputs();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t j = 0; j < sizeof columns / sizeof columns[0]; j++) {
            bool large = rows[i] * columns[j] > 1 << 16;
            for (int kind = 0; kind < 12; kind++) {
                if (large && kind % 3 != chosen % 3) continue;
                check(x, &(bordered_case){rows[i], columns[j], (side_kind)(kind / 4), kind & 1 ? 0.25 : 0,
                                          kind & 2 ? 1 : -1});
            }
            chosen++;
        }
    }
    free(x);
    assert_ok(psgd_set_threads(threads));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
