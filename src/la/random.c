#include "core/status.h"
#include "la/array/normal.h"

#include <psgd/random.h>

static psgd_status fill(psgd_dtype dtype, rng_stream stream, int64_t first, int64_t count, void *x)
{
    PSGD_TRY(psgd__check_dtype(dtype));
    if (first < 0 || count < 0 || first > INT64_MAX - count || (count > 0 && !x)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "cannot put %lld normal deviates from entry %lld on into %s",
                          (long long)count, (long long)first, x ? "an array" : "NULL");
    }
    if (dtype == PSGD_F64) {
        psgd__la_normal_f64(&stream, first, count, x);
    } else {
        psgd__la_normal_f32(&stream, first, count, x);
    }
    return PSGD_OK;
}

psgd_status psgd_normal_fill(psgd_dtype dtype, uint64_t seed, uint64_t tensor, uint64_t step, int64_t first,
                             int64_t count, void *x)
{
    return fill(dtype, psgd__rng_stream(seed, RNG_PROBE, tensor, step), first, count, x);
}

psgd_status psgd_normal_init(psgd_dtype dtype, uint64_t seed, uint64_t tensor, int64_t first, int64_t count, void *x)
{
    return fill(dtype, psgd__rng_stream(seed, RNG_INIT, tensor, 0), first, count, x);
}
