/* IDX files, the format of MNIST and similar sets: a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and
 * t10k-images.., t10k-labels.., each plain or with .gz. Images become [1, h, w] from 0 to 1. */
#include "data/format/gzip.h"
#include "data/samples_table.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t big_endian(const unsigned char *at)
{
    return (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

/* Reads folder/name or folder/name.gz: bytes of this many dimensions, whose sizes go to shape. */
static psgd_status load(const psgd_context *context, const char *folder, const char *name, int ndim,
                        unsigned char **bytes, int64_t *shape)
{
    char path[4096];
    int64_t count, size = 1, start = 4 + 4 * ndim;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (access(path, F_OK) != 0) snprintf(path, sizeof path, "%s/%s.gz", folder, name);
    if (access(path, F_OK) != 0) {
        return psgd__fail(PSGD_ERR_IO, "there is neither %s nor %s.gz in %s", name, name, folder);
    }
    PSGD_TRY(psgd__file_read(context, path, bytes, &count));
    const unsigned char *b = *bytes;
    if (count < start || b[0] || b[1] || b[2] != 8 || b[3] != ndim) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is not an IDX file of bytes with %d dimensions", path, ndim);
    }
    for (int i = 0; i < ndim; i++) {
        shape[i] = big_endian(b + 4 + 4 * i);
        if (shape[i] < 1 || !psgd__mul_fits(size, shape[i], &size)) {
            return psgd__fail(PSGD_ERR_FORMAT, "%s says that its dimension %d has size %lld", path, i,
                              (long long)shape[i]);
        }
    }
    if (count - start != size) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s should have %lld bytes of data and has %lld: it is truncated or damaged",
                          path, (long long)size, (long long)(count - start));
    }
    memmove(*bytes, b + start, (size_t)size);
    return PSGD_OK;
}

static psgd_status load_split(const source_request *request, unsigned char **images, int64_t shape[3],
                              unsigned char **labels)
{
    const char *part = request->split == SPLIT_TEST ? "t10k" : "train";
    char name[64];
    int64_t count;
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    PSGD_TRY(load(request->context, request->argument, name, 3, images, shape));
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    PSGD_TRY(load(request->context, request->argument, name, 1, labels, &count));
    if (count == shape[0]) return PSGD_OK;
    return psgd__fail(PSGD_ERR_FORMAT, "%s has %lld images for %s and %lld labels", request->argument,
                      (long long)shape[0], part, (long long)count);
}

static psgd_status idx_open(const source_request *request, source **opened)
{
    unsigned char *images = NULL, *labels = NULL;
    int64_t shape[3];
    psgd_status status = load_split(request, &images, shape, &labels);
    if (status == PSGD_OK) {
        int64_t sample[3] = {1, shape[1], shape[2]};
        return psgd__samples_open(request, SAMPLES_BYTE, 3, sample, shape[0], images, labels, opened);
    }
    psgd__free(request->context, images);
    psgd__free(request->context, labels);
    return status;
}

const source_kind psgd__source_idx = {
    .name = "idx",
    .argument = "DIR",
    .summary = "IDX files as MNIST has them, plain or .gz",
    .open = idx_open,
};
