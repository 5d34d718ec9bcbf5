#include "core/dtype.h"
#include "core/status.h"

psgd_status psgd__check_dtype(psgd_dtype dtype)
{
    if (dtype == PSGD_F32 || dtype == PSGD_F64) return PSGD_OK;
    if (dtype == PSGD_BF16 || dtype == PSGD_F16) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s is for the arrays of an optimizer; here dtype is PSGD_F32 or PSGD_F64",
                          psgd_dtype_name(dtype));
    }
    return psgd__fail(PSGD_ERR_ARGUMENT, "dtype must be PSGD_F32 or PSGD_F64, not %d", (int)dtype);
}

size_t psgd_dtype_size(psgd_dtype dtype)
{
    if (dtype == PSGD_BF16 || dtype == PSGD_F16) return 2;
    return dtype == PSGD_F64 ? sizeof(double) : sizeof(float);
}

const char *psgd_dtype_name(psgd_dtype dtype)
{
    static const char *const names[] = {"f32", "f64", "bf16", "f16"};
    return (unsigned)dtype < sizeof names / sizeof names[0] ? names[dtype] : "f32";
}
