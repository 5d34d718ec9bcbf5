/* The meta.mat of a development kit. Where the first byte is odd, what follows is the inside of an array, which is
 * deflated here: no fuzzer gets past zlib's checksum. */
#include "fuzz.h"

#include "data/image/devkit.h"

#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t whole[1 << 17];
    devkit kit;
    if (size < 1 || size > 1 << 16) return 0;
    bool deflated = data[0] & 1;
    data++;
    size--;
    size_t count = 128;
    memset(whole, ' ', count);
    memcpy(whole + 124, "\0\1IM", 4);
    if (deflated) {
        uLongf packed = sizeof whole - count - 8;
        FUZZ_ASSERT(compress2(whole + count + 8, &packed, data, (uLong)size, 1) == Z_OK);
        uint32_t tag[2] = {15, (uint32_t)packed};
        memcpy(whole + count, tag, sizeof tag);
        count += 8 + packed;
    } else {
        if (size) memcpy(whole + count, data, size);
        count += size;
    }
    if (psgd__devkit_read(fuzz_context(true), fuzz_file(0, whole, count), &kit) != PSGD_OK) return 0;
    FUZZ_ASSERT(kit.count > 0 && kit.name);
    for (int64_t i = 0; i < kit.count; i++) FUZZ_ASSERT(memchr(kit.name[i], 0, DEVKIT_NAME));
    psgd__devkit_free(fuzz_context(true), &kit);
    return 0;
}
