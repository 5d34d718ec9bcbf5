#include "core/half.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

bool psgd__is_half(psgd_dtype dtype)
{
    return dtype == PSGD_BF16 || dtype == PSGD_F16;
}

static float f16_value(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0) return float_of(bits_of((float)fraction * 0x1p-24F) | sign);
    return float_of(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

/* Below 2^-14 the spacing is 2^-24, that of floats from 1/2 to 1. */
static uint16_t f16_nearest(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (a >= bits_of(65520)) return (uint16_t)(sign | 0x7c00);
    if (a < bits_of(0x1p-14F)) return (uint16_t)(sign | (bits_of(float_of(a) + 0.5F) - bits_of(0.5F)));
    return (uint16_t)(sign | (a - (112U << 23) + 0xfff + (a >> 13 & 1)) >> 13);
}

static uint16_t bf16_nearest(float x)
{
    uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); /* NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float psgd__half_value(psgd_dtype dtype, uint16_t bits)
{
    return dtype == PSGD_BF16 ? float_of((uint32_t)bits << 16) : f16_value(bits);
}

uint16_t psgd__half_nearest(psgd_dtype dtype, float x)
{
    return dtype == PSGD_BF16 ? bf16_nearest(x) : f16_nearest(x);
}

/* Up where the distance to the lower neighbour, in units of their spacing, plus random / 2^16 is at least 1; exact. */
static float f16_small(float x, uint32_t random)
{
    float scaled = x * 0x1p24F, down = floorf(scaled);
    return copysignf((down + (scaled - down >= 1 - (float)random * 0x1p-16F ? 1.0F : 0.0F)) * 0x1p-24F, x);
}

static float within(float x, float largest)
{
    return fmaxf(-largest, fminf(x, largest));
}

uint16_t psgd__half_rounded(psgd_dtype dtype, float x, uint32_t random)
{
    random &= 0xffff;
    if (!isfinite(x)) return psgd__half_nearest(dtype, x);
    if (dtype == PSGD_BF16) {
        float made = float_of((bits_of(x) + random) & ~0xffffU);
        return bf16_nearest(within(isfinite(made) ? made : x, 0x1.fep127F));
    }
    float made = fabsf(x) < 0x1p-14F ? f16_small(x, random) : float_of((bits_of(x) + (random >> 3)) & ~0x1fffU);
    return f16_nearest(within(fabsf(made) <= 65504 ? made : x, 65504));
}

void psgd__half_widen(psgd_dtype dtype, int64_t count, const uint16_t *from, float *x)
{
    for (int64_t i = 0; i < count; i++) x[i] = psgd__half_value(dtype, from[i]);
}

void psgd__half_narrow(psgd_dtype dtype, int64_t count, const float *x, uint16_t *to)
{
    for (int64_t i = 0; i < count; i++) to[i] = psgd__half_nearest(dtype, x[i]);
}

void psgd__half_round(psgd_dtype dtype, const rng_stream *stream, int64_t first, int64_t count, const float *x,
                      uint16_t *to)
{
    enum { TILE = 8 * RNG_LANES }; /* entries that one tile of bits is for */
    uint32_t bits[4 * RNG_LANES];
    int64_t tile = -1;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = first + i;
        if (at / TILE != tile) {
            tile = at / TILE;
            psgd__rng_tile(stream, (uint64_t)tile, bits);
        }
        uint32_t word = bits[at % TILE / 2];
        to[i] = psgd__half_rounded(dtype, x[i], at % 2 ? word >> 16 : word);
    }
}
