/* bfloat16 and float16: values by their definition, and rounding to one of two neighbours by the bits that are drawn.
 */
#include "support.h"

#include "core/half.h"

static const psgd_dtype halves[] = {PSGD_BF16, PSGD_F16};

static int fraction_bits(psgd_dtype dtype)
{
    return dtype == PSGD_BF16 ? 7 : 10;
}

static int least_exponent(psgd_dtype dtype)
{
    return dtype == PSGD_BF16 ? -126 : -14;
}

/* The value of bits by the definition of the type. */
static double by_definition(psgd_dtype dtype, uint16_t bits)
{
    int f = fraction_bits(dtype), exponent = bits >> f & ((1 << (15 - f)) - 1), fraction = bits & ((1 << f) - 1);
    double size = exponent ? ldexp((1 << f) + fraction, exponent - 1 + least_exponent(dtype) - f)
                           : ldexp(fraction, least_exponent(dtype) - f);
    return bits >> 15 ? -size : size;
}

static bool is_finite(psgd_dtype dtype, uint16_t bits)
{
    return (bits >> fraction_bits(dtype) & ((1 << (15 - fraction_bits(dtype))) - 1)) !=
           (1 << (15 - fraction_bits(dtype))) - 1;
}

/* The distance of the two neighbours that |x| lies between. */
static double spacing(psgd_dtype dtype, double x)
{
    int exponent;
    frexp(x, &exponent);
    exponent = exponent - 1 < least_exponent(dtype) ? least_exponent(dtype) : exponent - 1;
    return ldexp(1, exponent - fraction_bits(dtype));
}

static void every_value_is_by_its_definition(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            float x = psgd__half_value(halves[d], (uint16_t)bits);
            if (!is_finite(halves[d], (uint16_t)bits)) {
                assert_true(!isfinite(x));
                continue;
            }
            assert_true((double)x == by_definition(halves[d], (uint16_t)bits));
            assert_int_equal(psgd__half_nearest(halves[d], x), bits);
            assert_int_equal(psgd__half_rounded(halves[d], x, 0xffff), bits); /* what fits stays */
        }
    }
}

/* Floats of all exponents that the type has. */
static float some_float(psgd_dtype dtype, uint64_t *random)
{
    int low = least_exponent(dtype) - fraction_bits(dtype) - 2, high = dtype == PSGD_BF16 ? 127 : 15;
    double x = ldexp(1 + (double)(next_random(random) % (1 << 23)) / (1 << 23),
                     low + (int)(next_random(random) % (uint64_t)(high - low)));
    return (float)(next_random(random) % 2 ? -x : x);
}

static void nearest_is_nearest(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (int i = 0; i < 200000; i++) {
        psgd_dtype dtype = halves[i % 2];
        float x = some_float(dtype, &random);
        double gap = spacing(dtype, x), want = nearbyint(x / gap) * gap; /* ties to even */
        assert_true((double)psgd__half_value(dtype, psgd__half_nearest(dtype, x)) == want);
    }
    assert_int_equal(psgd__half_nearest(PSGD_F16, 65519.9F), 0x7bff);
    assert_int_equal(psgd__half_nearest(PSGD_F16, 65520), 0x7c00);
    assert_int_equal(psgd__half_nearest(PSGD_BF16, -HUGE_VALF), 0xff80);
    assert_true(isnan(psgd__half_value(PSGD_F16, psgd__half_nearest(PSGD_F16, NAN))));
    assert_true(isnan(psgd__half_value(PSGD_BF16, psgd__half_nearest(PSGD_BF16, NAN))));
}

/* Away from zero where share + random / 2^16 reaches 1, share being the place of |x| between its neighbours. float16
 * uses the upper 13 bits where it is normal; where it is not, it is x and not |x| that goes up. */
static void rounding_goes_up_by_its_share(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int i = 0; i < 200000; i++) {
        psgd_dtype dtype = halves[i % 2];
        float x = some_float(dtype, &random);
        uint32_t draw = (uint32_t)next_random(&random) & 0xffff;
        bool small = dtype == PSGD_F16 && fabsf(x) < 0x1p-14F;
        double gap = spacing(dtype, x), size = small ? x : fabs((double)x), down = floor(size / gap);
        double share = size / gap - down, chance = (dtype == PSGD_F16 && !small ? draw >> 3 << 3 : draw) / 65536.0;
        double want = (down + (share + chance >= 1)) * gap;
        if (!small && x < 0) want = -want;
        if (fabs(want) > (dtype == PSGD_F16 ? 65504 : 0x1.fep127)) continue;
        assert_true((double)psgd__half_value(dtype, psgd__half_rounded(dtype, x, draw)) == want);
    }
}

static void rounding_does_not_pass_the_largest(void **state)
{
    (void)state;
    assert_int_equal(psgd__half_rounded(PSGD_F16, 65510, 0xffff), 0x7bff);
    assert_int_equal(psgd__half_rounded(PSGD_BF16, 0x1.fe8p127F, 0xffff), 0x7f7f);
    assert_int_equal(psgd__half_rounded(PSGD_F16, 1e6F, 0), 0x7bff);
    assert_int_equal(psgd__half_rounded(PSGD_F16, -70000, 0xffff), 0xfbff);
    assert_int_equal(psgd__half_rounded(PSGD_BF16, -0x1.fffffep127F, 0), 0xff7f);
}

/* Any part of a tensor is rounded as the whole is. */
static void parts_are_rounded_as_the_whole(void **state)
{
    (void)state;
    enum { N = 1000 };
    float x[N];
    uint16_t whole[N], part[N];
    uint64_t random = 9;
    rng_stream stream = psgd__rng_stream(1, RNG_ROUND, 2, 3);
    for (int i = 0; i < N; i++) x[i] = some_float(PSGD_BF16, &random);
    psgd__half_round(PSGD_BF16, &stream, 0, N, x, whole);
    for (int i = 0; i < N; i++) {
        uint32_t bits = psgd__rng_bits(&stream, (uint64_t)i / 2);
        assert_int_equal(whole[i], psgd__half_rounded(PSGD_BF16, x[i], i % 2 ? bits >> 16 : bits & 0xffff));
    }
    psgd__half_round(PSGD_BF16, &stream, 301, N - 301, x + 301, part);
    assert_memory_equal(part, whole + 301, (N - 301) * sizeof *part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_by_its_definition), cmocka_unit_test(nearest_is_nearest),
        cmocka_unit_test(rounding_goes_up_by_its_share),    cmocka_unit_test(rounding_does_not_pass_the_largest),
        cmocka_unit_test(parts_are_rounded_as_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
