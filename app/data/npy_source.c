/* Samples and labels from two .npy files, npy:X.npy,Y.npy: X of shape (samples, ...), Y of shape (samples,). */
#include "data/format/npy.h"
#include "data/samples_table.h"

#include <stdio.h>
#include <string.h>

static psgd_status load(const psgd_context *context, const char *path, npy_file *file, float **values)
{
    PSGD_TRY(psgd__npy_open(context, path, file));
    PSGD_TRY(psgd__npy_check_finite(file, PSGD_F32));
    *values = psgd__alloc(context, file->count, sizeof **values);
    if (!*values) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the values of %s", path);
    return psgd__npy_read(file, 0, file->count, PSGD_F32, *values);
}

static psgd_status check(const npy_file *x, const npy_file *y)
{
    if (x->ndim < 2 || x->ndim > SOURCE_MAX_DIMS || x->count < 1) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "%s has %d dimensions and %lld elements; samples are (count, ...) with 2 to %d dimensions",
                          x->path, x->ndim, (long long)x->count, SOURCE_MAX_DIMS);
    }
    if (y->count != x->shape[0]) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s has %lld samples and %s %lld labels", x->path, (long long)x->shape[0],
                          y->path, (long long)y->count);
    }
    return PSGD_OK;
}

static psgd_status npy_open_source(const source_request *request, source **opened)
{
    const psgd_context *context = request->context;
    const char *argument = request->argument, *comma = strchr(argument, ',');
    char path[4096];
    if (!comma || !comma[1] || (size_t)(comma - argument) >= sizeof path) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the source npy needs two files: npy:X.npy,Y.npy");
    }
    snprintf(path, sizeof path, "%.*s", (int)(comma - argument), argument);
    npy_file files[2] = {{.handle = -1}, {.handle = -1}};
    float *x = NULL, *y = NULL;
    psgd_status status = load(context, path, &files[0], &x);
    if (status == PSGD_OK) status = load(context, comma + 1, &files[1], &y);
    if (status == PSGD_OK) status = check(&files[0], &files[1]);
    if (status == PSGD_OK) {
        status = psgd__samples_open(request, SAMPLES_FLOAT, files[0].ndim - 1, files[0].shape + 1, files[0].shape[0], x,
                                    y, opened);
        x = y = NULL;
    }
    psgd__free(context, x);
    psgd__free(context, y);
    for (int i = 0; i < 2; i++) psgd__npy_close(&files[i]);
    return status;
}

const source_kind psgd__source_npy = {
    .name = "npy",
    .argument = "X.npy,Y.npy",
    .summary = "samples (count, ...) and labels (count,) as NumPy stores them",
    .open = npy_open_source,
};
