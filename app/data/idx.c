/* IDX files, as MNIST and its like are distributed: a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and
 * t10k-images.., t10k-labels.., each plain or with .gz. Images become [1, h, w] from 0 to 1. */
#include "data/format/gzip.h"
#include "data/source.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct idx_source {
    source base;
    unsigned char *images, *labels; /* whole files */
    const unsigned char *pixels, *classes;
} idx_source;

static psgd_status idx_read(source *base, int64_t n, const int64_t *index, float *x, float *y)
{
    const idx_source *self = (const idx_source *)base;
    for (int64_t j = 0; j < n; j++) {
        const unsigned char *pixel = self->pixels + index[j] * base->features;
        for (int64_t i = 0; i < base->features; i++) x[i * n + j] = (float)pixel[i] / 255;
        y[j] = (float)self->classes[index[j]];
    }
    return PSGD_OK;
}

static void idx_close(source *base)
{
    idx_source *self = (idx_source *)base;
    psgd__free(base->context, self->images);
    psgd__free(base->context, self->labels);
    psgd__free(base->context, self);
}

static int64_t big_endian(const unsigned char *at)
{
    return (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

/* Reads folder/name or folder/name.gz: bytes of this many modes, whose sizes go to shape. */
static psgd_status load(const psgd_context *context, const char *folder, const char *name, int ndim,
                        unsigned char **bytes, int64_t *shape)
{
    char path[4096];
    int64_t count, size = 1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (access(path, F_OK) != 0) snprintf(path, sizeof path, "%s/%s.gz", folder, name);
    if (access(path, F_OK) != 0) {
        return psgd__fail(PSGD_ERR_IO, "there is neither %s nor %s.gz in %s", name, name, folder);
    }
    PSGD_TRY(psgd__file_read(context, path, bytes, &count));
    const unsigned char *b = *bytes;
    if (count < 4 + 4 * ndim || b[0] || b[1] || b[2] != 8 || b[3] != ndim) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is not an IDX file of bytes with %d modes", path, ndim);
    }
    for (int i = 0; i < ndim; i++) {
        shape[i] = big_endian(b + 4 + 4 * i);
        if (shape[i] < 1 || !psgd__mul_fits(size, shape[i], &size)) {
            return psgd__fail(PSGD_ERR_FORMAT, "%s says that its mode %d has size %lld", path, i, (long long)shape[i]);
        }
    }
    if (count - 4 - 4 * ndim != size) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s should have %lld bytes of data and has %lld: it is truncated or damaged",
                          path, (long long)size, (long long)(count - 4 - 4 * ndim));
    }
    return PSGD_OK;
}

static psgd_status fill(idx_source *self, const char *folder, source_split split)
{
    int64_t images[3], labels;
    const char *part = split == SPLIT_TEST ? "t10k" : "train";
    char name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    PSGD_TRY(load(self->base.context, folder, name, 3, &self->images, images));
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    PSGD_TRY(load(self->base.context, folder, name, 1, &self->labels, &labels));
    if (labels != images[0]) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s has %lld images for %s and %lld labels", folder, (long long)images[0],
                          part, (long long)labels);
    }
    self->pixels = self->images + 16;
    self->classes = self->labels + 8;
    source *base = &self->base;
    base->ndim = 3;
    base->sample[0] = 1;
    base->sample[1] = images[1];
    base->sample[2] = images[2];
    base->features = images[1] * images[2];
    base->count = labels;
    for (int64_t i = 0; i < labels; i++) {
        if (self->classes[i] >= base->classes) base->classes = self->classes[i] + 1;
    }
    return PSGD_OK;
}

static psgd_status idx_open(const psgd_context *context, const char *argument, source_split split,
                            const source_settings *settings, source **opened)
{
    (void)settings;
    idx_source *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the source idx");
    self->base = (source){.context = context, .read = idx_read, .close = idx_close};
    psgd_status status = fill(self, argument, split);
    if (status != PSGD_OK) {
        idx_close(&self->base);
        return status;
    }
    *opened = &self->base;
    return PSGD_OK;
}

const source_kind psgd__source_idx = {
    .name = "idx",
    .argument = "DIR",
    .summary = "IDX files as MNIST has them, plain or .gz",
    .open = idx_open,
};
