#include "cli/cli.h"
#include "core/file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void put32(uint8_t *to, uint32_t x)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(x >> (24 - 8 * i));
}

static psgd_status write_part(file_writer *file, const char *type, const uint8_t *data, size_t bytes)
{
    uint8_t head[8], tail[4];
    uLong sum = crc32(crc32(0, NULL, 0), (const Bytef *)type, 4);
    put32(head, (uint32_t)bytes);
    memcpy(head + 4, type, 4);
    put32(tail, (uint32_t)(bytes ? crc32(sum, data, (uInt)bytes) : sum));
    PSGD_TRY(psgd__file_write(file, head, sizeof head));
    if (bytes) PSGD_TRY(psgd__file_write(file, data, (int64_t)bytes));
    return psgd__file_write(file, tail, sizeof tail);
}

static psgd_status write_parts(file_writer *file, int width, int height, const uint8_t *packed, size_t bytes,
                               const uint8_t (*palette)[3])
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    uint8_t header[13] = {0};
    put32(header, (uint32_t)width);
    put32(header + 4, (uint32_t)height);
    header[8] = 8; /* bits */
    header[9] = 3; /* colour type: indices into a palette */
    PSGD_TRY(psgd__file_write(file, signature, sizeof signature));
    PSGD_TRY(write_part(file, "IHDR", header, sizeof header));
    PSGD_TRY(write_part(file, "PLTE", palette[0], 256 * 3));
    PSGD_TRY(write_part(file, "IDAT", packed, bytes));
    return write_part(file, "IEND", NULL, 0);
}

psgd_status cli_png_write(const char *path, int width, int height, const uint8_t *pixels, const uint8_t (*palette)[3])
{
    size_t row = (size_t)width + 1, raw = row * (size_t)height;
    uLongf bytes = compressBound((uLong)raw);
    uint8_t *rows = calloc(raw, 1), *packed = malloc(bytes); /* each row starts with its filter, 0: none */
    psgd_status status = PSGD_OK;
    file_writer file;
    if (!rows || !packed) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for an image");
    for (int y = 0; status == PSGD_OK && y < height; y++) {
        memcpy(rows + (size_t)y * row + 1, pixels + (size_t)y * (size_t)width, (size_t)width);
    }
    if (status == PSGD_OK && compress2(packed, &bytes, rows, (uLong)raw, 9) != Z_OK) {
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to compress an image");
    }
    if (status == PSGD_OK) status = psgd__file_create(NULL, path, &file);
    if (status == PSGD_OK) {
        status = write_parts(&file, width, height, packed, bytes, palette);
        if (status == PSGD_OK) status = psgd__file_publish(&file);
        psgd__file_abandon(&file);
    }
    free(rows);
    free(packed);
    return status;
}
