/* The classes of an ILSVRC development kit: its ground truth numbers them from 1 in an order of its own, and its
 * meta.mat says which folder of training images each number means. */
#ifndef PSGD_DATA_IMAGE_DEVKIT_H
#define PSGD_DATA_IMAGE_DEVKIT_H

#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

enum { DEVKIT_NAME = 32 };

typedef struct devkit {
    char (*name)[DEVKIT_NAME]; /* [count]: the folder of number i + 1; "" where there is none */
    int64_t count;
} devkit;

/* From a MATLAB 5 file with an array `synsets` of structures that have the fields ILSVRC..._ID and WNID. */
psgd_status psgd__devkit_read(const psgd_context *context, const char *path, devkit *kit);
void psgd__devkit_free(const psgd_context *context, devkit *kit);

#endif
