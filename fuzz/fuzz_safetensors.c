/* Weights of two matrices, as either type. A refused file changes nothing. */
#include "fuzz.h"

#include "data/format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    for (int dtype = PSGD_F32; dtype <= PSGD_F64; dtype++) {
        double a[6] = {0}, b[4] = {0}, zero[6] = {0};
        named_matrix matrices[] = {{"a", 3, 2, a}, {"b", 1, 4, b}};
        psgd_status status = psgd__safetensors_read(fuzz_context(true), path, (psgd_dtype)dtype, 2, matrices);
        if (status == PSGD_OK) {
            FUZZ_ASSERT(fuzz_finite((psgd_dtype)dtype, 6, a) && fuzz_finite((psgd_dtype)dtype, 4, b));
        } else {
            FUZZ_ASSERT(!memcmp(a, zero, sizeof a) && !memcmp(b, zero, sizeof b));
        }
    }
    return 0;
}
