#include "data/image/image_cache.h"
#include "core/checksum.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "psgdpix1";

typedef struct cache_head {
    char magic[8];
    int64_t height, width, count;
    uint64_t key;
} cache_head;

struct image_cache {
    const psgd_context *context;
    int file;
    cache_head head;
    char *path;
};

typedef struct cache_tail { /* of a record */
    uint64_t readable, checksum;
} cache_tail;

static int64_t pixel_bytes(int64_t height, int64_t width)
{
    return 3 * height * width;
}

static cache_head head_of(const image_files *files, int64_t height, int64_t width)
{
    cache_head head;
    memset(&head, 0, sizeof head);
    memcpy(head.magic, magic, sizeof magic);
    head.height = height;
    head.width = width;
    head.count = files->count;
    head.key = CHECKSUM_START;
    for (int64_t i = 0; i < files->count; i++) {
        const char *path = files->file[i].path, *name = strrchr(path, '/');
        struct stat about;
        int64_t size = stat(path, &about) == 0 ? (int64_t)about.st_size : -1;
        head.key = psgd__checksum_add(head.key, name, (int64_t)strlen(name));
        head.key = psgd__checksum_add(head.key, &size, sizeof size);
    }
    return head;
}

psgd_status psgd__image_cache_open(const psgd_context *context, const char *path, const image_files *files,
                                   int64_t height, int64_t width, image_cache **opened)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return psgd__fail(PSGD_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    image_cache *self = psgd__alloc(context, 1, sizeof *self);
    char *copy = psgd__strdup(context, path);
    if (!self || !copy) {
        close(file);
        psgd__free(context, self);
        psgd__free(context, copy);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the cache %s", path);
    }
    *self = (image_cache){.context = context, .file = file, .path = copy};
    cache_head wanted = head_of(files, height, width);
    struct stat about;
    int64_t record = pixel_bytes(height, width) + (int64_t)sizeof(cache_tail);
    bool whole = pread(file, &self->head, sizeof self->head, 0) == (ssize_t)sizeof self->head &&
                 fstat(file, &about) == 0 && about.st_size == (off_t)((int64_t)sizeof wanted + record * wanted.count);
    if (!whole || memcmp(&self->head, &wanted, sizeof wanted) != 0) {
        psgd__image_cache_close(self);
        return psgd__fail(PSGD_ERR_FORMAT,
                          "%s is not the cache of these %lld images at %lld x %lld; remove it and it will be rebuilt",
                          path, (long long)files->count, (long long)height, (long long)width);
    }
    *opened = self;
    return PSGD_OK;
}

void psgd__image_cache_close(image_cache *self)
{
    if (!self) return;
    close(self->file);
    psgd__free(self->context, self->path);
    psgd__free(self->context, self);
}

psgd_status psgd__image_cache_read(const image_cache *self, int64_t index, unsigned char *rgb)
{
    cache_tail tail = {0};
    int64_t bytes = pixel_bytes(self->head.height, self->head.width);
    int64_t at = (int64_t)sizeof self->head + index * (bytes + (int64_t)sizeof tail);
    if (pread(self->file, rgb, (size_t)bytes, (off_t)at) != (ssize_t)bytes ||
        pread(self->file, &tail, sizeof tail, (off_t)(at + bytes)) != (ssize_t)sizeof tail) {
        return psgd__fail(PSGD_ERR_IO, "cannot read image %lld of the cache %s", (long long)index, self->path);
    }
    if (!tail.readable) {
        return psgd__fail(PSGD_ERR_FORMAT, "image %lld of the cache %s could not be read when the cache was written",
                          (long long)index, self->path);
    }
    if (psgd__checksum_add(CHECKSUM_START, rgb, bytes) == tail.checksum) return PSGD_OK;
    return psgd__fail(PSGD_ERR_FORMAT, "image %lld of the cache %s is damaged: its checksum is wrong", (long long)index,
                      self->path);
}

psgd_status psgd__image_cache_create(const psgd_context *context, const char *path, const image_files *files,
                                     int64_t height, int64_t width, file_writer *to)
{
    cache_head head = head_of(files, height, width);
    PSGD_TRY(psgd__file_create(context, path, to));
    psgd_status status = psgd__file_write(to, &head, sizeof head);
    if (status != PSGD_OK) psgd__file_abandon(to);
    return status;
}

psgd_status psgd__image_cache_add(file_writer *to, int64_t height, int64_t width, const unsigned char *rgb)
{
    static const unsigned char none[4096];
    int64_t bytes = pixel_bytes(height, width);
    cache_tail tail = {.readable = rgb != NULL};
    if (rgb) {
        tail.checksum = psgd__checksum_add(CHECKSUM_START, rgb, bytes);
        PSGD_TRY(psgd__file_write(to, rgb, bytes));
    }
    for (int64_t at = 0; !rgb && at < bytes; at += (int64_t)sizeof none) {
        PSGD_TRY(psgd__file_write(to, none, bytes - at < (int64_t)sizeof none ? bytes - at : (int64_t)sizeof none));
    }
    return psgd__file_write(to, &tail, sizeof tail);
}
