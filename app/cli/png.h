/* Images of few colours as PNG files. */
#ifndef PSGD_CLI_PNG_H
#define PSGD_CLI_PNG_H

#include <stdint.h>

#include "core/status.h"

/* width x height pixels, each an index into the palette of 256 colours (red, green, blue). */
psgd_status cli_png_write(const char *path, int width, int height, const uint8_t *pixels, const uint8_t (*palette)[3]);

#endif
