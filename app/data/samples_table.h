/* Samples that are all in memory: what CSV, .npy and IDX files become, and drawn digits. */
#ifndef PSGD_DATA_SAMPLES_TABLE_H
#define PSGD_DATA_SAMPLES_TABLE_H

#include "data/source.h"

typedef enum samples_type { SAMPLES_FLOAT, SAMPLES_BYTE } samples_type;

/* Samples [count][features] and their y [count], whose memory the source takes over, also on failure. Labels that are
 * all whole numbers from 0 are classes; any other y are numbers. Bytes are read as 0 to 1 and are one split; of floats
 * the split is held out by the settings' share. */
psgd_status psgd__samples_open(const source_request *request, samples_type type, int ndim, const int64_t *sample,
                               int64_t count, void *x, void *y, source **opened);

#endif
