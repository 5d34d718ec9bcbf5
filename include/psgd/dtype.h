/* Floating-point types. Every object is f32 or f64, and arrays passed to it are of that type. An optimizer can also be
 * made for arrays of bfloat16 or IEEE float16, 16 bits each in the byte order of the machine: its state is f32, and it
 * rounds parameters stochastically (psgd/optim.h). */
#ifndef PSGD_DTYPE_H
#define PSGD_DTYPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum psgd_dtype { PSGD_F32 = 0, PSGD_F64 = 1, PSGD_BF16 = 2, PSGD_F16 = 3 } psgd_dtype;

size_t psgd_dtype_size(psgd_dtype dtype);      /* 4, 8 or 2 */
const char *psgd_dtype_name(psgd_dtype dtype); /* "f32", "f64", "bf16" or "f16" */

#ifdef __cplusplus
}
#endif
#endif
