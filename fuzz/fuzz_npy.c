/* A .npy file, read as either type. */
#include "fuzz.h"

#include "data/format/npy.h"

enum { PIECE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    npy_file npy;
    if (psgd__npy_open(fuzz_context(true), fuzz_file(0, data, size), &npy) != PSGD_OK) return 0;
    FUZZ_ASSERT(npy.count >= 0 && npy.ndim >= 0 && npy.ndim <= NPY_MAX_DIMS);
    for (int wanted = PSGD_F32; wanted <= PSGD_F64; wanted++) {
        double piece[PIECE];
        bool finite = psgd__npy_check_finite(&npy, (psgd_dtype)wanted) == PSGD_OK;
        for (int64_t from = 0; from < npy.count; from += PIECE) {
            int64_t count = npy.count - from < PIECE ? npy.count - from : PIECE;
            psgd_status status = psgd__npy_read(&npy, from, count, (psgd_dtype)wanted, piece);
            if (finite) FUZZ_ASSERT(status == PSGD_OK && fuzz_finite((psgd_dtype)wanted, count, piece));
        }
    }
    psgd__npy_close(&npy);
    return 0;
}
