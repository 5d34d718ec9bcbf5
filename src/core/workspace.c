#include "core/workspace.h"

enum { LINE = 64 };

_Thread_local int psgd__work_slice = 0;

/* Takes note of how much the user before this one has reserved. */
void psgd__work_begin(workspace *work)
{
    if (work->cursor <= WORK_SMALL && work->cursor > work->small) work->small = work->cursor;
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
    psgd__work_begin(work);
    if (work->bytes >= 0 && work->slices > 1 && work->small > 0) {
        work->stride = work->small;
        if (work->bytes < work->slices * work->stride) work->bytes = work->slices * work->stride;
    }
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
