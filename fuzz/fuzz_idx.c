/* IDX files: two bytes with the length of the images' file, that file, the labels' file. */
#include "fuzz_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    size_t images = data[0] + 256u * data[1];
    data += 2;
    size -= 2;
    if (images > size) images = size;
    fuzz_write("train-images-idx3-ubyte", data, images);
    fuzz_write("train-labels-idx1-ubyte", data + images, size - images);
    fuzz_source("idx", fuzz_folder());
    return 0;
}
