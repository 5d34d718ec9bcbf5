/* How one source serves both floating-point types.
 *
 * A typed source is compiled twice, with PSGD_REAL_F64 defined or not, and reads as if there were one type, real. Names
 * that cross files are #defined to PSGD_TYPED(name) in their header and so end in _f32 or _f64. Untyped code picks one
 * with PSGD_PICK(dtype, name). */
#ifndef PSGD_CORE_DTYPE_H
#define PSGD_CORE_DTYPE_H

#include <psgd/dtype.h>
#include <psgd/status.h>

/* PSGD_ERR_ARGUMENT, with its sentence, for anything but the two. */
psgd_status psgd__check_dtype(psgd_dtype dtype);

#define PSGD_PICK(dtype, name) ((dtype) == PSGD_F64 ? name##_f64 : name##_f32)

#ifdef PSGD_TYPED_SOURCE
#ifdef PSGD_REAL_F64
typedef double real;
#define PSGD_TYPED(name) name##_f64
#define REAL_DTYPE       PSGD_F64
#define REAL_EPSILON     DBL_EPSILON
#define REAL_MAX         DBL_MAX
#else
typedef float real;
#define PSGD_TYPED(name) name##_f32
#define REAL_DTYPE       PSGD_F32
#define REAL_EPSILON     FLT_EPSILON
#define REAL_MAX         FLT_MAX
#endif
#endif

#endif
