/* Decoded images in one file: a head, then a record for each image, its pixels and their checksum.
 *
 * The head says which images they are, by their names and sizes; a file of others is refused. It is written under
 * another name and takes its place when it is whole. */
#ifndef PSGD_DATA_IMAGE_IMAGE_CACHE_H
#define PSGD_DATA_IMAGE_IMAGE_CACHE_H

#include "core/file.h"
#include "data/image/image_files.h"

typedef struct image_cache image_cache;

/* PSGD_ERR_IO where there is no such file. */
psgd_status psgd__image_cache_open(const psgd_context *context, const char *path, const image_files *files,
                                   int64_t height, int64_t width, image_cache **opened);
void psgd__image_cache_close(image_cache *self); /* NULL is fine */

/* rgb [height, width, 3] <- image number index. May be called by several threads. */
psgd_status psgd__image_cache_read(const image_cache *self, int64_t index, unsigned char *rgb);

/* Writing: the head, then every image in turn, NULL for one that cannot be read; psgd__file_publish ends it. */
psgd_status psgd__image_cache_create(const psgd_context *context, const char *path, const image_files *files,
                                     int64_t height, int64_t width, file_writer *to);
psgd_status psgd__image_cache_add(file_writer *to, int64_t height, int64_t width, const unsigned char *rgb);

#endif
