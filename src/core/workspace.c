#include "core/workspace.h"

enum { LINE = 64 };

void psgd__work_begin(workspace *work)
{
    work->cursor = 0;
}

int64_t psgd__work_reserve(workspace *work, int64_t count, size_t size)
{
    int64_t offset = work->cursor, bytes, end;
    if (work->bytes < 0) return 0;
    if (!psgd__mul_fits(count, (int64_t)size, &bytes) || !psgd__add_fits(offset, bytes, &end) ||
        !psgd__add_fits(end, LINE, &end)) {
        work->bytes = -1;
        return 0;
    }
    work->cursor = (end - 1) / LINE * LINE;
    if (work->cursor > work->bytes) work->bytes = work->cursor;
    return offset;
}

psgd_status psgd__work_commit(workspace *work)
{
    psgd__free(work->context, work->memory);
    work->memory = work->bytes < 0 ? NULL : psgd__alloc(work->context, work->bytes, 1);
    if (!work->memory) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a workspace of %lld bytes", (long long)work->bytes);
    }
    return PSGD_OK;
}

void psgd__work_free(workspace *work)
{
    psgd__free(work->context, work->memory);
    work->memory = NULL;
}
