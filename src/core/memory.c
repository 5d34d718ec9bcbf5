/* The allocator hook, and the default behind it.
 *
 * Addresses are rounded up to 64 bytes here, so that any allocator that aligns like malloc will do; the address of the
 * block itself is stored in front of the rounded one. */
#include "core/memory.h"
#include "core/context.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/resource.h>
#endif

enum { ALIGNMENT = 64, HUGE_PAGE = 1 << 21 };

bool psgd__mul_fits(int64_t a, int64_t b, int64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

bool psgd__add_fits(int64_t a, int64_t b, int64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

/* Asks for huge pages inside a block of several of them, before it is touched: page faults and misses of the
 * translation buffer cost more than the arithmetic of the groups that stream. A refusal changes nothing. */
static void ask_for_huge_pages(void *block, int64_t bytes)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes < 2 * HUGE_PAGE) return;
    uintptr_t from = ((uintptr_t)block + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uintptr_t to = ((uintptr_t)block + (uintptr_t)bytes) / HUGE_PAGE * HUGE_PAGE;
    if (from < to) (void)madvise((char *)block + (from - (uintptr_t)block), to - from, MADV_HUGEPAGE);
#else
    (void)block;
    (void)bytes;
#endif
}

void *psgd__alloc(const psgd_context *context, int64_t count, size_t size)
{
    int64_t bytes;
    if (count < 0 || !psgd__mul_fits(count, (int64_t)size, &bytes)) return NULL;
    if (!psgd__add_fits(bytes, ALIGNMENT + (int64_t)sizeof(void *), &bytes)) return NULL;

    void *block = context ? context->allocator.allocate(context->allocator.data, (size_t)bytes)
                          : calloc(1, (size_t)bytes);
    if (!block) return NULL;
    ask_for_huge_pages(block, bytes);
    if (context) memset(block, 0, (size_t)bytes);

    uintptr_t start = (uintptr_t)block + sizeof(void *);
    char *aligned = (char *)block + sizeof(void *) + ((ALIGNMENT - start % ALIGNMENT) % ALIGNMENT);
    memcpy(aligned - sizeof(void *), &block, sizeof block);
    return aligned;
}

void psgd__free(const psgd_context *context, void *memory)
{
    if (!memory) return;

    void *block;
    memcpy(&block, (char *)memory - sizeof(void *), sizeof block);
    if (context) {
        context->allocator.release(context->allocator.data, block);
    } else {
        free(block);
    }
}

bool psgd__grow(const psgd_context *context, void *array, int64_t need, int64_t *room, size_t size)
{
    if (need <= *room) return true;
    void *old, *grown = psgd__alloc(context, 2 * need + 16, size);
    if (!grown) return false;
    memcpy(&old, array, sizeof old);
    if (old) memcpy(grown, old, (size_t)*room * size);
    psgd__free(context, old);
    memcpy(array, &grown, sizeof grown);
    *room = 2 * need + 16;
    return true;
}

char *psgd__strdup(const psgd_context *context, const char *chars)
{
    size_t bytes = strlen(chars) + 1;
    char *copy = psgd__alloc(context, (int64_t)bytes, 1);
    if (copy) memcpy(copy, chars, bytes);
    return copy;
}

#if defined(__linux__)
/* The number after a word at the beginning of a line of a file, or INFINITY. */
static double number_in(const char *path, const char *word)
{
    char line[256];
    double number = INFINITY;
    FILE *file = fopen(path, "r");
    while (file && isinf(number) && fgets(line, sizeof line, file)) {
        if (strncmp(line, word, strlen(word)) != 0) continue;
        char *end, *from = line + strlen(word);
        double here = psgd__to_number(from, &end);
        if (end > from) number = here;
    }
    if (file) fclose(file);
    return number;
}

static double free_bytes(void)
{
    double max = 1024 * number_in("/proc/meminfo", "MemAvailable:");
    double limit = number_in("/sys/fs/cgroup/memory.max", "") - number_in("/sys/fs/cgroup/memory.current", "");
    if (limit < max) max = limit;
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY && (double)space.rlim_cur < max) {
        max = (double)space.rlim_cur;
    }
    return max;
}
#else
static double free_bytes(void)
{
    return INFINITY;
}
#endif

psgd_status psgd__memory_check(double need, const char *what, const char *advice)
{
    double max = free_bytes();
    if (!(need > max)) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NO_MEMORY, "%s needs about %.2f GB of memory and %.2f GB are free; %s", what, need / 1e9,
                      max / 1e9, advice);
}
