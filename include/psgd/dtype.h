/* The two floating-point types. Every object has one; arrays passed to it are of that type. */
#ifndef PSGD_DTYPE_H
#define PSGD_DTYPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum psgd_dtype { PSGD_F32 = 0, PSGD_F64 = 1 } psgd_dtype;

size_t psgd_dtype_size(psgd_dtype dtype);      /* 4 or 8 */
const char *psgd_dtype_name(psgd_dtype dtype); /* "f32" or "f64" */

#ifdef __cplusplus
}
#endif
#endif
