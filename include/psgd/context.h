/* A context holds what would otherwise be global state: the allocator and the groups that the caller has registered.
 *
 * Every create call takes a context; NULL means malloc and the built-in groups. A context must outlive every object
 * created with it. Several threads may use one context at a time, except to register a group; its allocator must then
 * be thread-safe. Any other object is used by one thread at a time, also where a call takes it as const, since calls
 * share its scratch memory. Every free call accepts NULL. */
#ifndef PSGD_CONTEXT_H
#define PSGD_CONTEXT_H

#include <stddef.h>

#include <psgd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct psgd_context psgd_context;

/* allocate returns memory aligned like malloc's, or NULL; release takes what allocate returned, never NULL. */
typedef struct psgd_allocator {
    void *(*allocate)(void *data, size_t bytes);
    void (*release)(void *data, void *memory);
    void *data;
} psgd_allocator;

/* allocator may be NULL: malloc and free. */
psgd_status psgd_context_create(const psgd_allocator *allocator, psgd_context **context);
void psgd_context_free(psgd_context *context);

#ifdef __cplusplus
}
#endif
#endif
