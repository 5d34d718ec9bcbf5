#ifndef PSGD_CORE_CONTEXT_H
#define PSGD_CORE_CONTEXT_H

#include <psgd/context.h>

/* group_list is the group layer's own; core only keeps it and calls release_groups when the context goes. */
struct psgd_context {
    psgd_allocator allocator;
    void *group_list;
    void (*release_groups)(psgd_context *context);
};

#endif
