/* Lists of rows, as <psgd/rows.h> has them. */
#ifndef PSGD_CORE_ROWS_H
#define PSGD_CORE_ROWS_H

#include "core/status.h"
#include <psgd/rows.h>

/* Refuses a list that is not ascending or has a row outside 0 .. limit - 1. */
psgd_status psgd__rows_check(const psgd_rows *rows, int64_t limit);

#endif
