#include "core/dtype.h"

size_t psgd_dtype_size(psgd_dtype dtype)
{
    return dtype == PSGD_F64 ? sizeof(double) : sizeof(float);
}

const char *psgd_dtype_name(psgd_dtype dtype)
{
    return dtype == PSGD_F64 ? "f64" : "f32";
}
