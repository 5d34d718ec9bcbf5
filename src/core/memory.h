/* Allocation through the context's hook. Everything here takes a NULL context for malloc and free. */
#ifndef PSGD_CORE_MEMORY_H
#define PSGD_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

/* NULL on failure, also where count * size overflows. Zeroed, aligned to 64 bytes for vector kernels. */
void *psgd__alloc(const psgd_context *context, int64_t count, size_t size);
void psgd__free(const psgd_context *context, void *memory);

/* Room for need elements in the array that *array points at, which moves where it was too short; room is what it has.
 * On failure, false, nothing has changed. */
bool psgd__grow(const psgd_context *context, void *array, int64_t need, int64_t *room, size_t size);

char *psgd__strdup(const psgd_context *context, const char *chars);

/* PSGD_OK where so many bytes are free, as the system reports it and within the limits of this process; else a message
 * with both numbers, ending in the advice. */
psgd_status psgd__memory_check(double need, const char *what, const char *advice);

/* a * b and a + b for sizes (both >= 0): false where the result does not fit int64_t. */
bool psgd__mul_fits(int64_t a, int64_t b, int64_t *product);
bool psgd__add_fits(int64_t a, int64_t b, int64_t *sum);

#endif
