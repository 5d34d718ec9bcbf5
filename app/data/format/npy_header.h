/* The header of a .npy file: a Python dictionary with the keys descr, fortran_order and shape. */
#ifndef PSGD_DATA_FORMAT_NPY_HEADER_H
#define PSGD_DATA_FORMAT_NPY_HEADER_H

#include "data/format/npy.h"

/* Fills dtype, swapped, modes, shape and count from the dictionary, which is zero-terminated. */
psgd_status psgd__npy_parse_header(const char *header, npy_file *npy);

#endif
