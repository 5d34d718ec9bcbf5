/* A table in text, plain or gzipped. */
#include "fuzz_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_source("csv", fuzz_file(0, data, size));
    return 0;
}
