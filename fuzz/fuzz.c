#include "fuzz.h"

#include "core/checksum.h"

#include <dirent.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

static void write_all(int handle, const uint8_t *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t wrote = pwrite(handle, data + done, size - done, (off_t)done);
        if (wrote <= 0) abort();
        done += (size_t)wrote;
    }
}

const char *fuzz_file(int number, const uint8_t *data, size_t size)
{
    static int handles[FUZZ_FILES];
    static char path[FUZZ_FILES][32];
    if (!handles[number]) {
        handles[number] = memfd_create("input", MFD_CLOEXEC);
        if (handles[number] < 0) abort();
        snprintf(path[number], sizeof path[number], "/proc/self/fd/%d", handles[number]);
    }
    if (ftruncate(handles[number], 0) != 0) abort();
    write_all(handles[number], data, size);
    return path[number];
}

static char folder[64];

static void remove_folder(void)
{
    char path[512];
    DIR *all = opendir(folder);
    if (!all) return;
    for (const struct dirent *entry; (entry = readdir(all));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)unlink(path);
    }
    closedir(all);
    (void)rmdir(folder);
}

const char *fuzz_folder(void)
{
    if (*folder) return folder;
    snprintf(folder, sizeof folder, "%s/psgd-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder)) abort();
    atexit(remove_folder);
    return folder;
}

const char *fuzz_write(const char *name, const uint8_t *data, size_t size)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
    return path;
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    copy[size] = 0;
    return copy;
}

static void *limited(void *strict, size_t bytes)
{
    if (bytes <= FUZZ_LARGEST) return malloc(bytes);
    if (strict) {
        fprintf(stderr, "%zu bytes are asked for\n", bytes);
        abort();
    }
    return NULL;
}

static void release(void *strict, void *memory)
{
    (void)strict;
    free(memory);
}

const psgd_context *fuzz_context(bool strict)
{
    static psgd_context *contexts[2];
    static char yes;
    if (!contexts[strict]) {
        psgd_allocator allocator = {limited, release, strict ? &yes : NULL};
        FUZZ_ASSERT(psgd_context_create(&allocator, &contexts[strict]) == PSGD_OK);
    }
    return contexts[strict];
}

enum { EDIT = 11, EDITS_MAX = 64 };

char *fuzz_edit(const uint8_t *edits, size_t size, const char *whole, size_t *count)
{
    char *bytes = malloc(*count + 8 * EDITS_MAX + 1);
    if (!bytes) abort();
    memcpy(bytes, whole, *count);
    for (size_t i = 0; i + EDIT <= size && i < (size_t)EDIT * EDITS_MAX; i += EDIT) {
        const uint8_t *what = edits + i + 3;
        size_t at = edits[i + 1] + 256u * edits[i + 2];
        at %= *count + 1;
        size_t width = (size_t[]){8, 4, 1, 8, 0}[edits[i] % 5];
        if (edits[i] % 5 == 3) { /* inserted */
            memmove(bytes + at + 8, bytes + at, *count - at);
            *count += 8;
        }
        if (edits[i] % 5 == 4) *count = at;
        if (width > *count - at) width = *count - at;
        memcpy(bytes + at, what, width);
    }
    return bytes;
}

void fuzz_repair_optimizer(char *state, size_t count)
{
    const size_t size_at = 32; /* behind the magic and the name of the method */
    for (size_t from = 0; count - from >= size_at + 8;) {
        int64_t bytes;
        memcpy(&bytes, state + from + size_at, sizeof bytes);
        if (bytes < (int64_t)size_at + 16 || (uint64_t)bytes > count - from) return;
        uint64_t sum = psgd__checksum_add(CHECKSUM_START, state + from, bytes - 8);
        memcpy(state + from + bytes - 8, &sum, sizeof sum);
        from += (size_t)bytes;
    }
}

bool fuzz_finite(psgd_dtype dtype, int64_t count, const void *x)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(dtype == PSGD_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i])) return false;
    }
    return true;
}
