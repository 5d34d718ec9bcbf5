#include "graph/ops.h"

#define F32(name) &psgd__op_##name##_f32,
#define F64(name) &psgd__op_##name##_f64,

const psgd_op *psgd__op_at(psgd_dtype dtype, int index)
{
    static const psgd_op *const f32[] = {PSGD_OPS(F32)}, *const f64[] = {PSGD_OPS(F64)};
    if (index < 0 || index >= (int)(sizeof f32 / sizeof f32[0])) return NULL;
    return dtype == PSGD_F64 ? f64[index] : f32[index];
}
