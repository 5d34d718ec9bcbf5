/* A real as an integer. */
#ifndef PSGD_LA_KERNEL_BITS_H
#define PSGD_LA_KERNEL_BITS_H

#include <stdint.h>
#include <string.h>

#include "core/dtype.h"

#ifdef PSGD_REAL_F64
typedef int64_t bits;
#define ABS_MASK INT64_MAX
#else
typedef int32_t bits;
#define ABS_MASK INT32_MAX
#endif

static inline bits to_bits(real x)
{
    bits b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static inline real from_bits(bits b)
{
    real x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* |x|: ordered like the reals, with infinity above all of them and NaN above that. */
static inline bits abs_bits(real x)
{
    return to_bits(x) & ABS_MASK;
}

#endif
