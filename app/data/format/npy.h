/* Arrays in NumPy's .npy files: numbers in C order, integers and truth values among them, read in pieces as f32 or f64;
 * f32 and f64 are written whole. */
#ifndef PSGD_DATA_FORMAT_NPY_H
#define PSGD_DATA_FORMAT_NPY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/file.h"
#include <psgd/dtype.h>

enum { NPY_MAX_DIMS = 33 }; /* a tensor of 32 modes, and one more that counts tensors */

typedef struct npy_type {
    const char *name; /* as in descr, after the byte order */
    int size;
} npy_type;

typedef struct npy_file {
    const psgd_context *context;
    char *path;
    int handle;
    const npy_type *type;
    bool swapped; /* big-endian */
    int ndim;
    int64_t shape[NPY_MAX_DIMS], count; /* count: the product of shape */
    int64_t start;                      /* of the elements in the file, in bytes */
} npy_file;

/* Opens path and checks everything but the elements themselves; the sentence of a failure names the file. */
psgd_status psgd__npy_open(const psgd_context *context, const char *path, npy_file *npy);
void psgd__npy_close(npy_file *npy); /* harmless on one that is zero or closed */

/* to <- elements from .. from + count - 1, as the wanted type. */
psgd_status psgd__npy_read(const npy_file *npy, int64_t from, int64_t count, psgd_dtype wanted, void *to);

/* Reads everything once and refuses the first number that is not finite, or not as the wanted type. */
psgd_status psgd__npy_check_finite(const npy_file *npy, psgd_dtype wanted);

/* Refuses a shape other than (T, shape[0], .., shape[ndim - 1]); *first is then the first size. */
psgd_status psgd__npy_check_shape(const npy_file *npy, int ndim, const int64_t *shape, int64_t *first);

/* Fills type, swapped, ndim, shape and count from the header, a Python dictionary with the keys descr, fortran_order
 * and shape, which is zero-terminated. */
psgd_status psgd__npy_parse_header(const char *header, npy_file *npy);

/* The header of an array; the caller writes the elements after it. */
psgd_status psgd__npy_write_header(file_writer *file, psgd_dtype dtype, int ndim, const int64_t *shape);

#endif
