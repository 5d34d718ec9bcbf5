/* Scratch memory that is sized while things are created and shared by all of them when they run.
 *
 * Each user (one preconditioner, say) calls begin, then reserves what it needs and keeps the offsets; commit makes one
 * block as large as the largest user. Users never run at the same time, so they may overlap; the reservations of one
 * user never do. */
#ifndef PSGD_CORE_WORKSPACE_H
#define PSGD_CORE_WORKSPACE_H

#include <stdint.h>

#include "core/memory.h"
#include "core/status.h"

enum { WORK_SMALL = 1 << 20 }; /* bytes up to which users may run in parallel, each thread in a slice of its own */

typedef struct workspace {
    const psgd_context *context;
    char *memory;
    int slices;            /* asked for before commit; 0: one */
    int64_t small;         /* bytes of the largest small user: what a slice holds */
    int64_t stride;        /* from slice to slice, 0 where there is one */
    int64_t cursor, bytes; /* of the current user; of the largest so far. -1: more than can be counted */
} workspace;

void psgd__work_begin(workspace *work);
int64_t psgd__work_reserve(workspace *work, int64_t count, size_t size); /* returns an offset for psgd__work_at */
psgd_status psgd__work_commit(workspace *work);
void psgd__work_free(workspace *work);

/* The slice that this thread works in: 0 but where la_tasks runs one. */
extern _Thread_local int psgd__work_slice;

static inline void *psgd__work_at(const workspace *work, int64_t offset)
{
    return work->memory + psgd__work_slice * work->stride + offset;
}

#endif
