/* JPEG by libturbojpeg: decoded at the smallest of its scales that is large enough, which averages as it shrinks, then
 * bilinear interpolation in integers, the same on every machine. */
#include "data/image/jpeg.h"
#include "core/file.h"
#include "core/memory.h"

#include <string.h>
#include <turbojpeg.h>

#ifdef TJFLAG_LIMITSCANS
enum { LIMIT_SCANS = TJFLAG_LIMITSCANS };
#else
enum { LIMIT_SCANS = 0 };
#endif

typedef struct buffer {
    unsigned char *bytes;
    int64_t room;
} buffer;

struct jpeg_decoder {
    const psgd_context *context;
    tjhandle handle;
    buffer pixels, row;
};

psgd_status psgd__jpeg_open(const psgd_context *context, jpeg_decoder **opened)
{
    jpeg_decoder *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to decode images");
    self->context = context;
    self->handle = tjInitDecompress();
    if (!self->handle) {
        psgd__free(context, self);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to decode images");
    }
    *opened = self;
    return PSGD_OK;
}

void psgd__jpeg_close(jpeg_decoder *self)
{
    if (!self) return;
    if (self->handle) tjDestroy(self->handle);
    psgd__free(self->context, self->pixels.bytes);
    psgd__free(self->context, self->row.bytes);
    psgd__free(self->context, self);
}

/* What was in the buffer is lost. */
static psgd_status make_room(jpeg_decoder *self, buffer *to, int64_t bytes)
{
    if (bytes <= to->room) return PSGD_OK;
    psgd__free(self->context, to->bytes);
    to->room = 0;
    to->bytes = psgd__alloc(self->context, bytes + bytes / 4, 1);
    if (!to->bytes) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for an image of %lld bytes", (long long)bytes);
    to->room = bytes + bytes / 4;
    return PSGD_OK;
}

/* The smallest scaled size that still covers the rectangle. */
static void choose_scale(int64_t height, int64_t width, int *w, int *h)
{
    int count, full_w = *w, full_h = *h;
    const tjscalingfactor *factors = tjGetScalingFactors(&count);
    for (int i = 0; factors && i < count; i++) {
        int sw = TJSCALED(full_w, factors[i]), sh = TJSCALED(full_h, factors[i]);
        if (factors[i].num > factors[i].denom || sw < width || sh < height || sw >= *w) continue;
        *w = sw;
        *h = sh;
    }
}

/* Whether the segments before the image have one of Adobe's, which says that its inks are inverted. */
static bool has_adobe_marker(const unsigned char *file, unsigned long bytes)
{
    for (unsigned long at = 2; at + 9 < bytes && file[at] == 0xFF && file[at + 1] != 0xDA;) {
        if (file[at + 1] == 0xEE && !memcmp(file + at + 4, "Adobe", 5)) return true;
        at += 2 + 256ul * file[at + 2] + file[at + 3];
    }
    return false;
}

/* Inks of 255 mean none where they are inverted: light is ink times black. */
static void from_cmyk(int64_t pixels, bool inverted, const unsigned char *cmyk, unsigned char *rgb)
{
    unsigned flip = inverted ? 0 : 255;
    for (int64_t i = 0; i < pixels; i++) {
        unsigned black = cmyk[4 * i + 3] ^ flip;
        for (int c = 0; c < 3; c++) {
            rgb[3 * i + c] = (unsigned char)(((cmyk[4 * i + c] ^ flip) * black + 127) / 255);
        }
    }
}

/* A few bytes may claim thousands of millions of pixels, or scan an image thousands of times. Compression gets a block
 * of 64 pixels into one bit at best. */
static psgd_status check_size(const char *path, const unsigned char *file, unsigned long bytes, int w, int h)
{
    const double max = 1e8, pixels = (double)w * h;
    double scans = 0;
    for (unsigned long i = 0; i + 1 < bytes; i++) scans += file[i] == 0xFF && file[i + 1] == 0xDA;
    if (pixels > max || pixels * scans > 20 * max) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s has %d x %d pixels in %.0f scans, which is more than is decoded here",
                          path, w, h, scans);
    }
    if (pixels <= 512.0 * (double)bytes + 65536) return PSGD_OK;
    return psgd__fail(PSGD_ERR_FORMAT, "%s claims %d x %d pixels in %lu bytes: it is damaged", path, w, h, bytes);
}

static psgd_status decode(jpeg_decoder *self, const char *path, const unsigned char *file, unsigned long bytes,
                          int64_t height, int64_t width, int *w, int *h)
{
    int subsampling, colours;
    tjhandle tj = self->handle;
    if (tjDecompressHeader3(tj, file, bytes, w, h, &subsampling, &colours) || *w < 1 || *h < 1) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is not a JPEG that can be read: %s", path, tjGetErrorStr2(tj));
    }
    PSGD_TRY(check_size(path, file, bytes, *w, *h));
    choose_scale(height, width, w, h);
    bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
    int64_t pixels = (int64_t)*w * *h;
    PSGD_TRY(make_room(self, &self->pixels, pixels * (cmyk ? 7 : 3)));
    unsigned char *to = self->pixels.bytes + (cmyk ? 3 * pixels : 0);
    if (tjDecompress2(tj, file, bytes, to, *w, 0, *h, cmyk ? TJPF_CMYK : TJPF_RGB, TJFLAG_ACCURATEDCT | LIMIT_SCANS) &&
        (tjGetErrorCode(tj) == TJERR_FATAL || strstr(tjGetErrorStr2(tj), "Premature end"))) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is damaged: %s", path, tjGetErrorStr2(tj));
    }
    if (cmyk) from_cmyk(pixels, has_adobe_marker(file, bytes), to, self->pixels.bytes);
    return PSGD_OK;
}

/* Place i of the result in a side of size pixels: from pixel at, share / 256 of the one after it. */
typedef struct place {
    int at, share;
} place;

static place place_of(int64_t i, double scale, double start, int size)
{
    double x = start + scale * ((double)i + 0.5) - 0.5;
    if (x < 0) x = 0;
    if (x > size - 1) x = size - 1;
    int at = (int)x;
    if (at > size - 2) return (place){size > 1 ? size - 2 : 0, size > 1 ? 256 : 0};
    return (place){at, (int)((x - at) * 256 + 0.5)};
}

static void resize(jpeg_decoder *self, int w, int h, int64_t height, int64_t width, unsigned char *rgb)
{
    double scale_y = (double)h / (double)height, scale_x = (double)w / (double)width;
    double scale = scale_y < scale_x ? scale_y : scale_x;
    double top = (h - scale * (double)height) / 2, left = (w - scale * (double)width) / 2;
    uint16_t *row = (uint16_t *)(void *)self->row.bytes;
    place *columns = (place *)(void *)(self->row.bytes + ((size_t)w * 6 + 63) / 64 * 64);
    for (int64_t j = 0; j < width; j++) columns[j] = place_of(j, scale, left, w);
    for (int64_t i = 0; i < height; i++) {
        place y = place_of(i, scale, top, h);
        const unsigned char *above = self->pixels.bytes + (size_t)y.at * (size_t)w * 3;
        const unsigned char *below = above + (h > 1 ? (size_t)w * 3 : 0);
        for (int k = 0; k < 3 * w; k++) row[k] = (uint16_t)(above[k] * (256 - y.share) + below[k] * y.share);
        unsigned char *to = rgb + i * width * 3;
        for (int64_t j = 0; j < width; j++) {
            const uint16_t *at = row + 3 * columns[j].at, *next = at + (w > 1 ? 3 : 0);
            uint32_t share = (uint32_t)columns[j].share;
            for (int c = 0; c < 3; c++) {
                to[3 * j + c] = (unsigned char)((at[c] * (256 - share) + next[c] * share + 32768) >> 16);
            }
        }
    }
}

psgd_status psgd__jpeg_read(jpeg_decoder *self, const char *path, int64_t height, int64_t width, unsigned char *rgb)
{
    unsigned char *file;
    int64_t bytes;
    int w = 0, h = 0;
    if (!self->handle) self->handle = tjInitDecompress();
    if (!self->handle) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to decode images");
    PSGD_TRY(psgd__file_read_whole(self->context, path, &file, &bytes));
    psgd_status status = decode(self, path, file, (unsigned long)bytes, height, width, &w, &h);
    psgd__free(self->context, file);
    if (status != PSGD_OK) { /* after a failure a handle may still be in the middle of that image */
        tjDestroy(self->handle);
        self->handle = NULL;
        return status;
    }
    PSGD_TRY(make_room(self, &self->row, (int64_t)w * 6 + 64 + width * (int64_t)sizeof(place)));
    resize(self, w, h, height, width, rgb);
    return PSGD_OK;
}
