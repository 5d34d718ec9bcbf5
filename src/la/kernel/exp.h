/* exp, tanh and the sigmoid without branches or calls, so that loops over them become vectors. A NaN stays one. */
#ifndef PSGD_LA_KERNEL_EXP_H
#define PSGD_LA_KERNEL_EXP_H

#include "la/kernel/bits.h"

#ifdef PSGD_REAL_F64
#define EXP_ROUND  6755399441055744.0 /* 1.5 * 2^52: adding it rounds to a whole number */
#define EXP_LOW    -708.0
#define EXP_HIGH   709.0
#define EXP_LN2_HI 6.93145751953125e-1
#define EXP_LN2_LO 1.42860682030941723212e-6
enum { EXP_SHIFT = 52, EXP_BIAS = 1023 };
#else
#define EXP_ROUND  12582912.0f /* 1.5 * 2^23 */
#define EXP_LOW    -87.0f
#define EXP_HIGH   88.0f
#define EXP_LN2_HI 0.693359375f
#define EXP_LN2_LO -2.12194440e-4f
enum { EXP_SHIFT = 23, EXP_BIAS = 127 };
#endif

/* e^r for |r| <= ln 2 / 2 by its series: the first term left out is below a quarter of an epsilon. */
static inline real exp_series(real r)
{
#ifdef PSGD_REAL_F64
    real p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
#else
    real p = 1.0f / 5040;
#endif
    p = p * r + (real)(1.0 / 720);
    p = p * r + (real)(1.0 / 120);
    p = p * r + (real)(1.0 / 24);
    p = p * r + (real)(1.0 / 6);
    p = p * r + (real)0.5;
    p = p * r + 1;
    return p * r + 1;
}

static inline real exp_real(real x)
{
    x = x < EXP_LOW ? EXP_LOW : x;
    x = x > EXP_HIGH ? EXP_HIGH : x;
    real rounded = x * (real)1.4426950408889634 + EXP_ROUND;
    real n = rounded - EXP_ROUND;
    real r = x - n * EXP_LN2_HI - n * EXP_LN2_LO;
    bits exponent = to_bits(rounded) - to_bits(EXP_ROUND) + EXP_BIAS;
    return exp_series(r) * from_bits((bits)((uint64_t)exponent << EXP_SHIFT));
}

static inline real sigmoid_real(real x)
{
    return 1 / (1 + exp_real(-x));
}

/* Near 0 by Cephes' approximation, which keeps the relative error small there. */
static inline real tanh_real(real x)
{
    real m = x < 0 ? -x : x, z = x * x;
    real far = 1 - 2 / (exp_real(2 * m) + 1);
#ifdef PSGD_REAL_F64
    real p = (-9.64399179425052238628E-1 * z - 9.92877231001918586564E1) * z - 1.61468768441708447952E3;
    real q = ((z + 1.12811678491632931402E2) * z + 2.23548839060100448583E3) * z + 4.84406305325125486048E3;
    real near = x + x * z * (p / q);
#else
    real p = (((-5.70498872745E-3f * z + 2.06390887954E-2f) * z - 5.37397155531E-2f) * z + 1.33314422036E-1f) * z -
             3.33332819422E-1f;
    real near = x + x * z * p;
#endif
    far = x < 0 ? -far : far;
    return m < (real)0.625 ? near : far;
}

#endif
