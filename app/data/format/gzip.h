/* A whole file into memory, unpacked where it is gzipped. */
#ifndef PSGD_DATA_FORMAT_GZIP_H
#define PSGD_DATA_FORMAT_GZIP_H

#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

/* The caller frees *bytes with psgd__free; a zero byte follows them. The sentence of a failure names the file. */
psgd_status psgd__file_read(const psgd_context *context, const char *path, unsigned char **bytes, int64_t *count);

#endif
