#include "core/dtype.h"
#include "core/status.h"

psgd_status psgd__check_dtype(psgd_dtype dtype)
{
    if (dtype == PSGD_F32 || dtype == PSGD_F64) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "dtype must be PSGD_F32 or PSGD_F64, not %d", (int)dtype);
}

size_t psgd_dtype_size(psgd_dtype dtype)
{
    return dtype == PSGD_F64 ? sizeof(double) : sizeof(float);
}

const char *psgd_dtype_name(psgd_dtype dtype)
{
    return dtype == PSGD_F64 ? "f64" : "f32";
}
