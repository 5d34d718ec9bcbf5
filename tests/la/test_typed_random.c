/* Normal deviates: the bits, that nothing but the coordinates matters, and the distribution. */
#include "support.h"

#include <float.h>

#include "la/array/dispatch.h"
#include "la/array/normal.h"

static rng_stream probe(uint64_t seed, uint64_t tensor, uint64_t step)
{
    return psgd__rng_stream(seed, RNG_PROBE, tensor, step);
}

static real *draw(rng_stream stream, int64_t first, int64_t count)
{
    real *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    la_normal(&stream, first, count, x);
    return x;
}

/* What the vector code should make of the words, with the functions of libm. */
static void reference_pair(const rng_stream *s, uint64_t tile, int lane, int pair, double *x, double *y)
{
    uint64_t word[4];
    for (uint64_t j = 0; j < 4; j++) word[j] = psgd__rng_bits(s, (tile * 4 + j) * RNG_LANES + (uint64_t)lane);
#ifdef PSGD_REAL_F64
    (void)pair;
    uint64_t u_bits = word[0] << 32 | word[1], w_bits = word[2] << 32 | word[3];
    double u = ((double)(u_bits >> 12) + 0.5) * 0x1p-52, w = (double)w_bits * 0x1p-64;
#else
    double u = ((double)(word[2 * pair] >> 1) + 0.5) * 0x1p-31, w = (double)word[2 * pair + 1] * 0x1p-32;
    u = (double)(float)u;
#endif
    double r = sqrt(-2 * log(u));
    *x = r * cos(6.283185307179586477 * w);
    *y = r * sin(6.283185307179586477 * w);
}

/* u rounds to half a unit in the last place, log and sine to a few: 8 epsilon of the radius covers them. Near u = 1 the
 * radius is the root of a small difference, hence the absolute term. */
static void deviates_match_libm(void **state)
{
    (void)state;
    enum { PAIRS = LA_NORMAL_TILE / (2 * RNG_LANES) };
    rng_stream s = probe(3, 1, 4);
    real x[LA_NORMAL_TILE];
    for (int64_t tile = 0; tile < 2000; tile++) {
        la_normal(&s, tile * LA_NORMAL_TILE, LA_NORMAL_TILE, x);
        for (int i = 0; i < PAIRS * RNG_LANES; i++) {
            int pair = i / RNG_LANES, lane = i % RNG_LANES;
            double a, b;
            reference_pair(&s, (uint64_t)tile, lane, pair, &a, &b);
            double room = 8 * (double)REAL_EPSILON * (1 + hypot(a, b));
            assert_true(fabs((double)x[2 * pair * RNG_LANES + lane] - a) <= room);
            assert_true(fabs((double)x[(2 * pair + 1) * RNG_LANES + lane] - b) <= room);
        }
    }
}

static void every_table_makes_the_same_bits(void **state)
{
    (void)state;
    enum { TILES = 64 };
    real want[TILES * LA_NORMAL_TILE], got[TILES * LA_NORMAL_TILE];
    for (uint64_t i = 0; i < 200; i++) {
        rng_stream s = probe(i, i * i, 17 * i);
        int64_t tile = (int64_t)(i << (i % 50));
        la_table(0)->normal(&s, tile, TILES, want);
        for (int t = 1; t < la_table_count(); t++) {
            la_table(t)->normal(&s, tile, TILES, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

static void chunks_and_threads_do_not_matter(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    rng_stream s = probe(11, 0, 0);
    uint64_t random = 5;
    int threads = psgd_threads();
    assert_ok(psgd_set_threads(1));
    real *want = draw(s, 12345, COUNT), *got = calloc(COUNT, sizeof *got);
    for (int count = 1; count <= 3; count++) {
        assert_ok(psgd_set_threads(count));
        real *again = draw(s, 12345, COUNT);
        assert_memory_equal(again, want, COUNT * sizeof *want);
        free(again);
    }
    assert_ok(psgd_set_threads(threads));
    for (int64_t at = 0, step; at < COUNT; at += step) {
        step = 1 + random_below(&random, 300);
        if (step > COUNT - at) step = COUNT - at;
        la_normal(&s, 12345 + at, step, got + at);
    }
    assert_memory_equal(got, want, COUNT * sizeof *want);
    free(want);
    free(got);
}

/* Each mean within 5 standard errors; the variance of z^k is E z^2k - (E z^k)^2. */
static void moments_are_those_of_a_normal(void **state)
{
    (void)state;
    enum { COUNT = 1 << 22 };
    const double expected[5] = {1, 0, 1, 0, 3}, variance[5] = {0, 1, 2, 15, 96};
    real *x = draw(probe(1, 2, 3), 0, COUNT);
    double sum[5] = {0};
    for (int64_t i = 0; i < COUNT; i++) {
        double z = (double)x[i], p = z;
        for (int k = 1; k <= 4; k++, p *= z) sum[k] += p;
    }
    for (int k = 1; k <= 4; k++) {
        double error = 5 * sqrt(variance[k] / COUNT);
        assert_true(fabs(sum[k] / COUNT - expected[k]) < error);
    }
    free(x);
}

static int ascending(const void *a, const void *b)
{
    real x = *(const real *)a, y = *(const real *)b;
    return (x > y) - (x < y);
}

/* D sqrt(n) exceeds 1.95 once in a thousand samples of a true normal; the seeds are fixed. */
static void kolmogorov_smirnov(void **state)
{
    (void)state;
    enum { COUNT = 300000 };
    real *x = draw(probe(21, 5, 9), 1000, COUNT);
    qsort(x, COUNT, sizeof *x, ascending);
    double max = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        double f = 0.5 * erfc(-(double)x[i] / sqrt(2));
        max = fmax(max, fmax(f - (double)i / COUNT, (double)(i + 1) / COUNT - f));
    }
    assert_true(max * sqrt(COUNT) < 1.95);
    free(x);
}

/* Poisson counts beyond 4 and 5 sigma, each side, within 4.5 standard deviations. */
static void tails_are_there(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20, ROUNDS = 24 };
    double above[2] = {0}, below[2] = {0};
    for (uint64_t r = 0; r < ROUNDS; r++) {
        real *x = draw(probe(33, 0, r), 0, COUNT);
        for (int64_t i = 0; i < COUNT; i++) {
            for (int k = 0; k < 2; k++) {
                above[k] += x[i] > 4 + k;
                below[k] += x[i] < -4 - k;
            }
        }
        free(x);
    }
    for (int k = 0; k < 2; k++) {
        double expected = 0.5 * erfc((4 + k) / sqrt(2)) * COUNT * ROUNDS, room = 4.5 * sqrt(expected);
        assert_true(fabs(above[k] - expected) < room);
        assert_true(fabs(below[k] - expected) < room);
    }
}

/* Products of two streams, and of their squares less one, have mean 0 and variance 1 and 4. */
static void assert_independent(const real *x, const real *y, int64_t n)
{
    double first = 0, second = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = (double)x[i], b = (double)y[i];
        first += a * b;
        second += (a * a - 1) * (b * b - 1);
    }
    assert_true(fabs(first) < 5 * sqrt((double)n));
    assert_true(fabs(second) < 5 * sqrt(4 * (double)n));
}

static void streams_are_independent(void **state)
{
    (void)state;
    enum { COUNT = 1 << 19 };
    real *x = draw(probe(1, 1, 1), 0, COUNT);
    rng_stream others[] = {
        probe(1, 2, 1),          probe(1, 1, 2),          probe(2, 1, 1),        probe(1, 0, 1),
        probe(1, 1, UINT64_MAX), probe(UINT64_MAX, 1, 1), probe(1, 1u << 24, 1), psgd__rng_stream(1, RNG_INIT, 1, 1)};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        real *y = draw(others[i], 0, COUNT);
        assert_independent(x, y, COUNT);
        free(y);
    }
    for (int64_t lag = 1; lag <= 2 * LA_NORMAL_TILE; lag *= 2) assert_independent(x, x + lag, COUNT - lag);
    free(x);
}

static void uniform_and_below_stay_in_range(void **state)
{
    (void)state;
    rng_stream s = psgd__rng_stream(9, RNG_SHUFFLE, 0, 0);
    double sum = 0;
    int64_t count[7] = {0};
    for (uint64_t i = 0; i < 70000; i++) {
        double u = psgd__rng_uniform(&s, i);
        assert_true(u > 0 && u < 1);
        sum += u;
        uint64_t k = psgd__rng_below(&s, i, 7);
        assert_true(k < 7);
        count[k]++;
    }
    assert_true(fabs(sum / 70000 - 0.5) < 5 / sqrt(12.0 * 70000));
    for (int k = 0; k < 7; k++) assert_true(fabs((double)count[k] - 10000) < 5 * sqrt(10000));
    assert_int_equal(psgd__rng_below(&s, 0, 1), 0);
}

static void public_call_checks_its_arguments(void **state)
{
    (void)state;
    real x[10], y[4];
    assert_ok(psgd_normal_fill(REAL_DTYPE, 5, 6, 7, 0, 10, x));
    assert_ok(psgd_normal_fill(REAL_DTYPE, 5, 6, 7, 3, 4, y));
    assert_memory_equal(y, x + 3, sizeof y);
    assert_ok(psgd_normal_fill(REAL_DTYPE, 5, 6, 7, 3, 0, NULL));
    assert_fails(psgd_normal_fill(REAL_DTYPE, 5, 6, 7, -1, 4, y), PSGD_ERR_ARGUMENT, "entry -1");
    assert_fails(psgd_normal_fill(REAL_DTYPE, 5, 6, 7, 0, 4, NULL), PSGD_ERR_ARGUMENT, "NULL");
    assert_fails(psgd_normal_fill((psgd_dtype)9, 5, 6, 7, 0, 4, y), PSGD_ERR_ARGUMENT, "dtype");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deviates_match_libm),
        cmocka_unit_test(every_table_makes_the_same_bits),
        cmocka_unit_test(chunks_and_threads_do_not_matter),
        cmocka_unit_test(moments_are_those_of_a_normal),
        cmocka_unit_test(kolmogorov_smirnov),
        cmocka_unit_test(tails_are_there),
        cmocka_unit_test(streams_are_independent),
        cmocka_unit_test(uniform_and_below_stay_in_range),
        cmocka_unit_test(public_call_checks_its_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
