/* An image. */
#include "fuzz.h"

#include "data/image/jpeg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static jpeg_decoder *decoder;
    unsigned char rgb[16 * 5 * 3];
    if (!decoder) FUZZ_ASSERT(psgd__jpeg_open(fuzz_context(false), &decoder) == PSGD_OK);
    const char *path = fuzz_file(0, data, size);
    (void)psgd__jpeg_read(decoder, path, 8, 8, rgb);
    (void)psgd__jpeg_read(decoder, path, 16, 5, rgb);
    return 0;
}
