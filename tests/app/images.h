/* A folder of the test's own, and JPEGs made in it. */
#ifndef PSGD_TESTS_IMAGES_H
#define PSGD_TESTS_IMAGES_H

#include "support.h"

#include <sys/stat.h>
#include <turbojpeg.h>

static char root[256];

static inline const char *path_to(const char *format, ...)
{
    static char path[4][512];
    static int turn;
    char rest[256], *at = path[turn++ % 4];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    snprintf(at, 512, "%s/%s", root, rest);
    return at;
}

static inline void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

/* An image of one colour, or of three colours in stripes from left to right. */
static inline void write_jpeg(const char *path, int w, int h, int format, const unsigned char *colour, bool stripes)
{
    int size = tjPixelSize[format];
    unsigned char *pixels = malloc((size_t)(w * h * size)), *jpeg = NULL;
    unsigned long bytes = 0;
    assert_non_null(pixels);
    for (int i = 0; i < w * h; i++) {
        for (int c = 0; c < size; c++) {
            pixels[i * size + c] = stripes ? (unsigned char)(c == i % w * 3 / w ? 250 : 5) : colour[c];
        }
    }
    tjhandle tj = tjInitCompress();
    int grey = format == TJPF_GRAY;
    assert_int_equal(tjCompress2(tj, pixels, w, 0, h, format, &jpeg, &bytes, grey ? TJSAMP_GRAY : TJSAMP_444, 95, 0),
                     0);
    write_file(path, jpeg, bytes);
    tjDestroy(tj);
    tjFree(jpeg);
    free(pixels);
}

#endif
