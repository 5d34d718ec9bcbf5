/* The half precision types bfloat16 and IEEE float16, as bits, and their conversion from and to float.
 *
 * Stochastic rounding goes to one of the two neighbours of x, with the probabilities that make the mean x (to 2^-16 of
 * their distance, 2^-13 for float16): sums of steps too small for the type then arrive where rounding to nearest would
 * lose each of them. The random bits of an entry are a function of the stream and its index alone: 16 of the 32 bits of
 * entry index / 2 of the stream, the low ones where index is even. */
#ifndef PSGD_CORE_HALF_H
#define PSGD_CORE_HALF_H

#include <stdbool.h>

#include "core/rng.h"
#include <psgd/dtype.h>

/* dtype is PSGD_BF16 or PSGD_F16. */
bool psgd__is_half(psgd_dtype dtype);

float psgd__half_value(psgd_dtype dtype, uint16_t bits);
uint16_t psgd__half_nearest(psgd_dtype dtype, float x); /* ties to even; what is too large becomes infinite */
uint16_t psgd__half_rounded(psgd_dtype dtype, float x, uint32_t random); /* by 16 random bits; not beyond the largest */

/* to[0..count-1] <- x; x <- from; to <- x by stochastic rounding, where x[0] is entry first of the stream. */
void psgd__half_widen(psgd_dtype dtype, int64_t count, const uint16_t *from, float *x);
void psgd__half_narrow(psgd_dtype dtype, int64_t count, const float *x, uint16_t *to);
void psgd__half_round(psgd_dtype dtype, const rng_stream *stream, int64_t first, int64_t count, const float *x,
                      uint16_t *to);

#endif
