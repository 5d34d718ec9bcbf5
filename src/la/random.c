#include "core/status.h"
#include "la/array/normal.h"

#include <psgd/random.h>

psgd_status psgd_normal_fill(psgd_dtype dtype, uint64_t seed, uint64_t tensor, uint64_t step, int64_t first,
                             int64_t count, void *x)
{
    if (dtype != PSGD_F32 && dtype != PSGD_F64) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "dtype must be PSGD_F32 or PSGD_F64, not %d", (int)dtype);
    }
    if (first < 0 || count < 0 || first > INT64_MAX - count || (count > 0 && !x)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_normal_fill cannot put %lld numbers from entry %lld on into %s",
                          (long long)count, (long long)first, x ? "an array" : "NULL");
    }
    rng_stream stream = psgd__rng_stream(seed, RNG_PROBE, tensor, step);
    if (dtype == PSGD_F64) {
        psgd__la_normal_f64(&stream, first, count, x);
    } else {
        psgd__la_normal_f32(&stream, first, count, x);
    }
    return PSGD_OK;
}
