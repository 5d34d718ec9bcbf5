/* Normal deviates: Philox4x32-10 and the transform of Box and Muller, a tile at a time.
 *
 * Everything is integer arithmetic, +, -, *, / and sqrt, each rounded once as IEEE 754 says, so all instruction sets
 * make the same bits. A pair of uniform numbers (u, w) becomes sqrt(-2 log u) (cos 2 pi w, sin 2 pi w). In f32 words 0
 * and 1 of a block are one pair and words 2 and 3 another: 31 bits for u, hence deviates up to 6.7, 32 for w. In f64
 * words (0, 1) make u and (2, 3) make w, 52 bits each: deviates up to 8.6.
 *
 * The logarithm is that of m in [sqrt(1/2), sqrt(2)) and an exponent; sine and cosine are those of at most pi/4 and a
 * quadrant. f32 polynomials are near-minimax with errors of a few units in the last place; f64 follows the classic
 * fdlibm coefficients. */
#include "la/kernel/kernel.h"
#include "la/kernel/bits.h"

#include <math.h>

#include "core/philox.h"

enum { LANES = RNG_LANES };

#ifdef PSGD_REAL_F64
typedef uint64_t uword;
enum { FRACTION = 52 };
#define WORD(x) INT64_C(x)
#else
typedef uint32_t uword;
enum { FRACTION = 23 };
#define WORD(x) INT32_C(x)
#endif

/* The words of the LANES blocks from first on, one array each. */
static inline void philox_lanes(const rng_stream *stream, uint64_t first, uint32_t w[4][LANES])
{
    uint32_t low = (uint32_t)first, middle = (uint32_t)(first >> 32);
#pragma omp simd
    for (int l = 0; l < LANES; l++) {
        philox_block counter = {{low + (uint32_t)l, middle, stream->high[0], stream->high[1]}};
        philox_block made = philox4x32_10(counter, stream->key[0], stream->key[1]);
        w[0][l] = made.word[0];
        w[1][l] = made.word[1];
        w[2][l] = made.word[2];
        w[3][l] = made.word[3];
    }
}

#ifdef PSGD_REAL_F64

/* (0, 1) as odd multiples of 2^-53: the fraction of a number in [1, 2), less 1 - 2^-53, which is exact. */
static inline real unit(uint64_t u)
{
    return from_bits((bits)(u >> 12 | UINT64_C(0x3ff0000000000000))) - (1 - 0x1p-53);
}

/* e as a double: e + 2^52 has it in the low bits of its fraction. */
static inline real from_exponent(bits biased)
{
    return from_bits(biased | WORD(0x4330000000000000)) - (0x1p52 + 1023);
}

static inline real log_mantissa(real f)
{
    real s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    real p = 1.479819860511658591e-01;
    p = p * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    return f - (half - s * (half + p * z));
}

static inline real sine(real t)
{
    real z = t * t, p = 1.58969099521155010221e-10;
    p = p * z - 2.50507602534068634195e-08;
    p = p * z + 2.75573137070700676789e-06;
    p = p * z - 1.98412698298579493134e-04;
    p = p * z + 8.33333333332248946124e-03;
    p = p * z - 1.66666666666666324348e-01;
    return t + t * z * p;
}

static inline real cosine(real t)
{
    real z = t * t, p = -1.13596475577881948265e-11;
    p = p * z + 2.08757232129817482790e-09;
    p = p * z - 2.75573143513906633035e-07;
    p = p * z + 2.48015872894767294178e-05;
    p = p * z - 1.38888888888741095749e-03;
    p = p * z + 4.16666666666666019037e-02;
    return 1 - (0.5 * z - z * z * p);
}

/* The angle within its quadrant, from the 62 bits that are left: 52 of them as a number in [1, 2), less 3/2. */
static inline real angle(uint64_t turn)
{
    return (from_bits((bits)((turn << 2) >> 12 | UINT64_C(0x3ff0000000000000))) - 1.5) * 1.57079632679489661923;
}

static const real LN2 = 6.93147180559945286e-01;
static const bits SQRT_HALF = WORD(0x3fe6a09e667f3bcd);

#else

static inline real unit(uint32_t u)
{
    return ((real)(int32_t)(u >> 1) + 0.5f) * 0x1p-31f;
}

static inline real from_exponent(bits biased)
{
    return (real)(biased - 127);
}

static inline real log_mantissa(real f)
{
    real z = f * f, p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    return f - (0.5f * z - f * z * p);
}

static inline real sine(real t)
{
    real z = t * t, p = -1.9515295891e-4f;
    p = p * z + 8.3321608736e-3f;
    p = p * z - 1.6666654611e-1f;
    return t + t * z * p;
}

static inline real cosine(real t)
{
    real z = t * t, p = 2.443315711809948e-5f;
    p = p * z - 1.388731625493765e-3f;
    p = p * z + 4.166664568298827e-2f;
    return 1 - (0.5f * z - z * z * p);
}

static inline real angle(uint32_t turn)
{
    return (real)((int32_t)(turn & 0x3fffffffu) - 0x20000000) * 1.4629180792671596e-9f; /* pi / 2^31 */
}

static const real LN2 = 6.9314718056e-1f;
static const bits SQRT_HALF = WORD(0x3f3504f3);

#endif

/* x <- sqrt(-2 log u) cos 2 pi w, y <- the same with the sine. Counted from SQRT_HALF, the upper bits of a number are
 * its exponent once its mantissa is taken from [sqrt(1/2), sqrt(2)). */
static inline void box_muller(uword u_bits, uword w_bits, real *x, real *y)
{
    enum { TOP = sizeof(bits) * 8 - 1 };
    const bits one = to_bits(1);
    real u = unit(u_bits);
    bits shifted = to_bits(u) + (one - SQRT_HALF);
    bits mantissa = (shifted & ((WORD(1) << FRACTION) - 1)) + SQRT_HALF;
    real log_u = from_exponent(shifted >> FRACTION) * LN2 + log_mantissa(from_bits(mantissa) - 1);
#ifdef PSGD_REAL_F64
    real r = sqrt(-2 * log_u);
#else
    real r = sqrtf(-2 * log_u);
#endif
    uword turn = w_bits + ((uword)1 << (TOP - 2)), quadrant = turn >> (TOP - 1);
    real t = angle(turn), s = r * sine(t), c = r * cosine(t);
    bits swap = -(bits)(quadrant & 1);
    bits first = to_bits(c) ^ ((to_bits(c) ^ to_bits(s)) & swap),
         second = to_bits(s) ^ ((to_bits(c) ^ to_bits(s)) & swap);
    *x = from_bits(first ^ (bits)((((quadrant + 1) >> 1) & 1) << TOP));
    *y = from_bits(second ^ (bits)((quadrant >> 1) << TOP));
}

static inline void one_tile(const rng_stream *stream, uint64_t tile, real *restrict x)
{
    uint32_t w[4][LANES];
    philox_lanes(stream, tile * LANES, w);
#ifdef PSGD_REAL_F64
#pragma omp simd
    for (int l = 0; l < LANES; l++) {
        box_muller((uint64_t)w[0][l] << 32 | w[1][l], (uint64_t)w[2][l] << 32 | w[3][l], x + l, x + LANES + l);
    }
#else
#pragma omp simd
    for (int l = 0; l < LANES; l++) {
        box_muller(w[0][l], w[1][l], x + l, x + LANES + l);
        box_muller(w[2][l], w[3][l], x + 2 * LANES + l, x + 3 * LANES + l);
    }
#endif
}

void KERNEL(normal)(const rng_stream *stream, int64_t tile, int64_t count, real *x)
{
    const rng_stream own = *stream;
    for (int64_t t = 0; t < count; t++) one_tile(&own, (uint64_t)(tile + t), x + t * LA_NORMAL_TILE);
}
