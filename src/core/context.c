#include "core/context.h"
#include "core/status.h"

#include <stdlib.h>

static void *default_allocate(void *data, size_t bytes)
{
    (void)data;
    return malloc(bytes);
}

static void default_release(void *data, void *memory)
{
    (void)data;
    free(memory);
}

psgd_status psgd_context_create(const psgd_allocator *allocator, psgd_context **context)
{
    if (!context) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_context_create: context is NULL");
    *context = NULL;
    if (allocator && (!allocator->allocate || !allocator->release)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "an allocator needs both allocate and release");
    }

    psgd_allocator hooks = {.allocate = default_allocate, .release = default_release};
    if (allocator) hooks = *allocator;
    psgd_context *self = hooks.allocate(hooks.data, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a context");
    *self = (psgd_context){.allocator = hooks};
    *context = self;
    return PSGD_OK;
}

void psgd_context_free(psgd_context *context)
{
    if (!context) return;
    if (context->release_groups) context->release_groups(context);
    context->allocator.release(context->allocator.data, context);
}
