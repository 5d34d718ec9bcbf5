/* |x| as an integer: ordered like the numbers, with infinity above all of them and NaN above that. */
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

static inline bits abs_bits(real x)
{
    bits b;
    memcpy(&b, &x, sizeof b);
    return b & ABS_MASK;
}

static inline real from_bits(bits b)
{
    real x;
    memcpy(&x, &b, sizeof x);
    return x;
}

#endif
