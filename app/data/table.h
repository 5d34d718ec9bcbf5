/* Samples that are all in memory as numbers: what CSV and .npy files become. */
#ifndef PSGD_DATA_TABLE_H
#define PSGD_DATA_TABLE_H

#include "data/source.h"

/* Samples [count][features] and their y [count], whose memory the source takes over, also on failure. Labels that are
 * all whole numbers from 0 are classes; any other y are numbers. The split is held out by the settings' share. */
psgd_status psgd__table_open(const psgd_context *context, const char *what, int ndim, const int64_t *sample,
                             int64_t count, float *x, float *y, source_split split, const source_settings *settings,
                             source **opened);

#endif
