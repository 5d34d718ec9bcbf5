/* Synthetic tables by their laws, and what is trained on them. */
#include <math.h>

#include "core/memory.h"
#include "data/source.h"
#include "support.h"

#define assert_close(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

static source *open_source(const char *name, source_split split, int64_t samples)
{
    source_settings settings = {.seed = 1, .samples = samples};
    source *opened = NULL;
    assert_ok(psgd__source_open(NULL, name, split, &settings, &opened));
    return opened;
}

/* Samples 0 .. n - 1 as x [features, n] and y [n], in one block. */
static float *read_samples(source *from, int64_t n)
{
    float *x = psgd__alloc(NULL, (from->features + 1) * n, sizeof *x);
    int64_t *index = psgd__alloc(NULL, n, sizeof *index);
    for (int64_t j = 0; j < n; j++) index[j] = j;
    assert_ok(from->read(from, n, index, x, x + from->features * n));
    psgd__free(NULL, index);
    return x;
}

static double moment(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += (double)x[j] * (double)y[j];
    return sum / (double)n;
}

/* The moments of 10,000 samples are within 5 / sqrt(10000) = 0.05 of their expectations. */
static void logit_features_are_correlated_and_scaled(void **state)
{
    (void)state;
    enum { N = 10000 };
    source *plain = open_source("logit:6", SPLIT_TRAIN, N), *scaled = open_source("logit:6,1.5", SPLIT_TRAIN, N);
    float *x = read_samples(plain, N), *z = read_samples(scaled, N);
    double low = INFINITY, high = 0;
    for (int64_t i = 0; i < 6; i++) {
        for (int64_t k = 0; k < 6; k++) {
            assert_close(moment(x + i * N, x + k * N, N), pow(0.9, fabs((double)(i - k))), 0.07);
        }
        double scale = sqrt(moment(z + i * N, z + i * N, N) / moment(x + i * N, x + i * N, N));
        for (int64_t j = 0; j < N; j += 97) {
            assert_close(z[i * N + j], scale * x[i * N + j], 1e-5 * scale * (1 + fabs(x[i * N + j])));
        }
        low = fmin(low, scale);
        high = fmax(high, scale);
    }
    assert_true(low >= pow(10, -1.5) && high <= pow(10, 1.5) && high > 3 * low);
    /* Labels do not depend on the scales, and both classes are there. */
    double ones = 0;
    for (int64_t j = 0; j < N; j++) {
        assert_true(x[6 * N + j] == z[6 * N + j]);
        ones += (double)x[6 * N + j];
    }
    assert_true(ones > 0.3 * N && ones < 0.7 * N);
    assert_int_equal(plain->classes, 2);
    psgd__free(NULL, x);
    psgd__free(NULL, z);
    psgd__source_close(plain);
    psgd__source_close(scaled);
}

/* Of a matrix of rank 1 without its noise, y_ij y_kl = y_il y_kj; equal places have values 0.1 sqrt 2 apart. */
static void ratings_are_entries_of_a_low_rank_matrix(void **state)
{
    (void)state;
    enum { N = 4000, SIZE = 4 };
    source *from = open_source("ratings:4,1", SPLIT_TRAIN, N);
    float *x = read_samples(from, N), *y = x + 2 * SIZE * N;
    double sum[SIZE][SIZE] = {{0}}, square[SIZE][SIZE] = {{0}}, count[SIZE][SIZE] = {{0}};
    assert_int_equal(from->ndim, 2);
    for (int64_t j = 0; j < N; j++) {
        int at[2] = {-1, -1}, ones = 0;
        for (int k = 0; k < 2 * SIZE; k++) {
            if (x[k * N + j] == 0) continue;
            assert_true(x[k * N + j] == 1);
            at[k / SIZE] = k % SIZE;
            ones++;
        }
        assert_true(ones == 2 && at[0] >= 0 && at[1] >= 0);
        sum[at[0]][at[1]] += (double)y[j];
        square[at[0]][at[1]] += (double)y[j] * (double)y[j];
        count[at[0]][at[1]]++;
    }
    for (int i = 0; i < SIZE; i++) {
        for (int k = 0; k < SIZE; k++) {
            double mean = sum[i][k] / count[i][k], variance = square[i][k] / count[i][k] - mean * mean;
            double corner = sum[0][0] / count[0][0];
            assert_close(sqrt(variance), 0.1, 0.03);
            /* Means of some 250 values have a deviation of 0.006. */
            assert_close(mean * corner, sum[i][0] / count[i][0] * sum[0][k] / count[0][k],
                         0.04 * (1 + fabs(mean) + fabs(corner)));
        }
    }
    psgd__free(NULL, x);
    psgd__source_close(from);
}

static void oscillator_follows_its_formula(void **state)
{
    (void)state;
    enum { N = 100 };
    source *train = open_source("oscillator", SPLIT_TRAIN, 0), *test = open_source("oscillator", SPLIT_TEST, 0);
    float *x = read_samples(train, N), *other = read_samples(test, N);
    for (int64_t j = 0; j < N; j++) {
        double w = 2.5 + 1.5 * (double)x[j], z = 0.25 + 0.2 * (double)x[N + j], t = 1.5 * (1 + (double)x[2 * N + j]);
        assert_close(x[3 * N + j], exp(-z * w * t) * cos(sqrt(1 - z * z) * w * t), 1e-6);
        assert_true(x[j] != other[j]);
    }
    assert_int_equal(train->classes, 1);
    psgd__free(NULL, x);
    psgd__free(NULL, other);
    psgd__source_close(train);
    psgd__source_close(test);
}

/* A table that is too large to keep is drawn sample by sample, with the same values. */
static void large_tables_are_drawn_when_read(void **state)
{
    (void)state;
    source *small = open_source("logit:40", SPLIT_TRAIN, 50), *large = open_source("logit:40", SPLIT_TRAIN, 1 << 20);
    float *a = read_samples(small, 50), *b = read_samples(large, 50);
    assert_memory_equal(a, b, 41 * 50 * sizeof *a);
    psgd__free(NULL, a);
    psgd__free(NULL, b);
    psgd__source_close(small);
    psgd__source_close(large);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"logit:0",     "logit:5,x",     "logit:5,11",  "ratings:1",
                                        "ratings:5,0", "ratings:5,5,5", "oscillator:3"};
    source_settings settings = {.seed = 1};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        source *opened;
        assert_fails(psgd__source_open(NULL, names[i], SPLIT_TRAIN, &settings, &opened), PSGD_ERR_ARGUMENT, "not");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logit_features_are_correlated_and_scaled),
        cmocka_unit_test(ratings_are_entries_of_a_low_rank_matrix),
        cmocka_unit_test(oscillator_follows_its_formula),
        cmocka_unit_test(large_tables_are_drawn_when_read),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
