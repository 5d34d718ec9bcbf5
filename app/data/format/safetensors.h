/* Weights in safetensors files: eight bytes with the length of a JSON header, the header, the data. */
#ifndef PSGD_DATA_FORMAT_SAFETENSORS_H
#define PSGD_DATA_FORMAT_SAFETENSORS_H

#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>
#include <psgd/dtype.h>

/* One matrix of a slab. */
typedef struct named_matrix {
    const char *name;
    int64_t rows, columns;
    void *values;
} named_matrix;

psgd_status psgd__safetensors_write(const psgd_context *context, const char *path, psgd_dtype dtype, int count,
                                    const named_matrix *matrices);

/* Fills every matrix from the tensor of its name, which must be there with its shape, as F32 or F64. On failure nothing
 * has changed. Further tensors in the file are let be. */
psgd_status psgd__safetensors_read(const psgd_context *context, const char *path, psgd_dtype dtype, int count,
                                   const named_matrix *matrices);

#endif
