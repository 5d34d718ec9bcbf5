/* Vectors as wide as the instruction set's, in GCC's portable vector types, for the kernels that live on keeping a tile
 * of sums in registers. Loads and stores need no alignment beyond that of one element. */
#ifndef PSGD_LA_KERNEL_VEC_H
#define PSGD_LA_KERNEL_VEC_H

#include "la/kernel/bits.h"
#include "la/kernel/kernel.h"
#include "la/kernel/stream.h"

#if defined(__AVX512F__)
enum { VEC_BYTES = 64, TILE_COLUMNS = 4, CROSS_COLUMNS = 6, BLOCK_ROWS = 12 };
#elif defined(__AVX__)
enum { VEC_BYTES = 32, TILE_COLUMNS = 2, CROSS_COLUMNS = 2, BLOCK_ROWS = 6 };
#else
enum { VEC_BYTES = 16, TILE_COLUMNS = 2, CROSS_COLUMNS = 2, BLOCK_ROWS = 6 };
#endif
enum { LANES = VEC_BYTES / sizeof(real), TILE_ROWS = 6, CROSS_ROWS = 4, PANEL = 2 * LANES };

typedef real vec __attribute__((vector_size(VEC_BYTES), aligned(sizeof(real)), may_alias));
typedef bits vec_bits __attribute__((vector_size(VEC_BYTES), may_alias));

#if defined(__AVX512F__) && defined(PSGD_REAL_F64)
typedef __m512d avx512_vec;
typedef __mmask8 avx512_mask;
#define AVX512(name) _mm512_##name##_pd
#elif defined(__AVX512F__)
typedef __m512 avx512_vec;
typedef __mmask16 avx512_mask;
#define AVX512(name) _mm512_##name##_ps
#endif

/* With ASan the code of what is inlined takes half a minute to compile. */
#ifdef __SANITIZE_ADDRESS__
#define ALWAYS_INLINE static inline __attribute__((unused))
#else
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

ALWAYS_INLINE vec vec_load(const real *x)
{
    return *(const vec *)x;
}

ALWAYS_INLINE void vec_store(real *x, vec v)
{
    *(vec *)x = v;
}

/* The first count < LANES elements; the other lanes are zero, or left alone in memory. */
#if defined(__AVX512F__)
ALWAYS_INLINE vec vec_load_some(const real *x, int64_t count)
{
    return (vec)AVX512(maskz_loadu)((avx512_mask)((1U << count) - 1), x);
}

ALWAYS_INLINE void vec_store_some(real *x, vec v, int64_t count)
{
    AVX512(mask_storeu)(x, (avx512_mask)((1U << count) - 1), (avx512_vec)v);
}
#elif defined(__AVX__)
#ifdef PSGD_REAL_F64
#define AVX(name) _mm256_##name##_pd
typedef __m256d avx_vec;
#else
#define AVX(name) _mm256_##name##_ps
typedef __m256 avx_vec;
#endif

ALWAYS_INLINE __m256i vec_first_lanes(int64_t count)
{
    static const bits numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    vec_bits lane;
    memcpy(&lane, numbers, sizeof lane);
    return (__m256i)(lane < (bits)count);
}

ALWAYS_INLINE vec vec_load_some(const real *x, int64_t count)
{
    return (vec)AVX(maskload)(x, vec_first_lanes(count));
}

ALWAYS_INLINE void vec_store_some(real *x, vec v, int64_t count)
{
    AVX(maskstore)(x, vec_first_lanes(count), (avx_vec)v);
}
#else
ALWAYS_INLINE vec vec_load_some(const real *x, int64_t count)
{
    real lane[LANES] = {0};
    for (int64_t l = 0; l < count; l++) lane[l] = x[l];
    return vec_load(lane);
}

ALWAYS_INLINE void vec_store_some(real *x, vec v, int64_t count)
{
    real lane[LANES];
    vec_store(lane, v);
    for (int64_t l = 0; l < count; l++) x[l] = lane[l];
}
#endif

/* A vector, or its first count elements; which of the two is a constant wherever this is called. */
ALWAYS_INLINE vec vec_load_part(const real *x, bool whole, int64_t count)
{
    return whole ? vec_load(x) : vec_load_some(x, count);
}

ALWAYS_INLINE void vec_store_part(real *x, vec v, bool whole, int64_t count)
{
    if (whole) {
        vec_store(x, v);
    } else {
        vec_store_some(x, v, count);
    }
}

/* Past the caches; x is aligned to VEC_BYTES. Call stream_done before another thread reads it. */
ALWAYS_INLINE void vec_stream(real *x, vec v)
{
#if defined(__AVX512F__)
    _mm512_stream_si512((void *)x, (__m512i)v);
#elif defined(__AVX__)
    _mm256_stream_si256((void *)x, (__m256i)v);
#elif defined(__SSE2__)
    _mm_stream_si128((void *)x, (__m128i)v);
#else
    vec_store(x, v);
#endif
}

/* Elements before the first that is aligned to VEC_BYTES, at most n. */
ALWAYS_INLINE int64_t vec_head(const real *x, int64_t n)
{
    int64_t head = (int64_t)((VEC_BYTES - (uintptr_t)x % VEC_BYTES) % VEC_BYTES / sizeof(real));
    return head < n ? head : n;
}

/* |v| as integers, and the larger of two such. */
ALWAYS_INLINE vec_bits vec_abs_bits(vec v)
{
    return (vec_bits)v & (ABS_MASK - (vec_bits){0});
}

ALWAYS_INLINE vec_bits vec_larger(vec_bits a, vec_bits b)
{
    vec_bits more = a > b;
    return (a & more) | (b & ~more);
}

ALWAYS_INLINE bits vec_largest(vec_bits v)
{
    bits lane[LANES], max = 0;
    memcpy(lane, &v, sizeof v);
    for (int l = 0; l < LANES; l++) max = lane[l] > max ? lane[l] : max;
    return max;
}

/* Keeps the compiler from recomputing the product v as an FMA in each sum that uses it: additions have execution units
 * of their own. */
ALWAYS_INLINE void vec_settle(vec *v)
{
#if defined(__AVX512F__)
    __asm__("" : "+v"(*v));
#elif defined(__SSE2__)
    __asm__("" : "+x"(*v));
#else
    (void)v;
#endif
}

/* The sum of the lanes, by halves. */
ALWAYS_INLINE real vec_sum(vec v)
{
#if defined(__AVX512F__)
    return AVX512(reduce_add)((avx512_vec)v);
#elif defined(__AVX__) && defined(PSGD_REAL_F64)
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128((__m256d)v), _mm256_extractf128_pd((__m256d)v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
#elif defined(__AVX__)
    __m128 half = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
#else
    real lane[LANES];
    vec_store(lane, v);
#pragma GCC unroll 4
    for (int width = LANES / 2; width > 0; width /= 2) {
#pragma GCC unroll 8
        for (int l = 0; l < width; l++) lane[l] += lane[l + width];
    }
    return lane[0];
#endif
}

/* to_j += the sum of the lanes of v_j, j < count. */
#if defined(__AVX512F__) && !defined(PSGD_REAL_F64)
ALWAYS_INLINE __m128 vec_four_sums(vec a, vec b, vec c, vec d)
{
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b), _mm512_unpackhi_ps((__m512)a, (__m512)b));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d), _mm512_unpackhi_ps((__m512)c, (__m512)d));
    __m512d low = _mm512_unpacklo_pd((__m512d)ab, (__m512d)cd), high = _mm512_unpackhi_pd((__m512d)ab, (__m512d)cd);
    __m512 all = _mm512_add_ps((__m512)low, (__m512)high);
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

ALWAYS_INLINE void vec_add_sums(int count, const vec *v, real *to)
{
#pragma GCC unroll 4
    for (int j = 0; j < count; j += 4) {
        const vec none = {0};
        __m128 sums = vec_four_sums(v[j], j + 1 < count ? v[j + 1] : none, j + 2 < count ? v[j + 2] : none,
                                    j + 3 < count ? v[j + 3] : none);
        __mmask8 mask = count - j >= 4 ? 15 : (__mmask8)((1U << (count - j)) - 1);
        _mm_mask_storeu_ps(to + j, mask, _mm_add_ps(sums, _mm_maskz_loadu_ps(mask, to + j)));
    }
}
#else
ALWAYS_INLINE void vec_add_sums(int count, const vec *v, real *to)
{
    for (int j = 0; j < count; j++) to[j] += vec_sum(v[j]);
}
#endif

#endif
