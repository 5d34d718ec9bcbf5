#include "core/rows.h"

psgd_status psgd__rows_check(const psgd_rows *rows, int64_t limit)
{
    if (rows->count < 0 || (rows->count > 0 && !rows->index)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a list of %lld rows without an index", (long long)rows->count);
    }
    for (int64_t i = 0; i < rows->count; i++) {
        if (rows->index[i] >= (i ? rows->index[i - 1] + 1 : 0) && rows->index[i] < limit) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "row %lld at entry %lld: rows must be ascending, each once, and from 0 to %lld",
                          (long long)rows->index[i], (long long)i, (long long)(limit - 1));
    }
    return PSGD_OK;
}
