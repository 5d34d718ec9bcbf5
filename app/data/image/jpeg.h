/* One JPEG file as a rectangle of RGB pixels. */
#ifndef PSGD_DATA_IMAGE_JPEG_H
#define PSGD_DATA_IMAGE_JPEG_H

#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

typedef struct jpeg_decoder jpeg_decoder;

/* A decoder serves one thread at a time and keeps its buffers from image to image. */
psgd_status psgd__jpeg_open(const psgd_context *context, jpeg_decoder **opened);
void psgd__jpeg_close(jpeg_decoder *self); /* NULL is fine */

/* rgb [height, width, 3] <- the image, scaled so that it just covers the rectangle, and its centre taken. Colours may
 * be RGB, grey, or CMYK, inverted where Adobe wrote it. What cannot be read fails with a sentence that names the file:
 * PSGD_ERR_IO, PSGD_ERR_FORMAT; images that end early are among them. */
psgd_status psgd__jpeg_read(jpeg_decoder *self, const char *path, int64_t height, int64_t width, unsigned char *rgb);

#endif
