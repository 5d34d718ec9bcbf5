#include "data/format/gzip.h"
#include "core/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* gzread reads plain files as they are. */
static psgd_status read_all(const psgd_context *context, gzFile file, const char *path, int64_t guess,
                            unsigned char **bytes, int64_t *count)
{
    int64_t room = guess > 65536 ? guess : 65536;
    *count = 0;
    *bytes = psgd__alloc(context, room, 1);
    while (*bytes) {
        /* What a few bytes unpack to may be more than there is. */
        if (*count == room && room > 1 << 28)
            PSGD_TRY(psgd__memory_check(2.0 * (double)room, path, "give a smaller file"));
        if (!psgd__grow(context, bytes, *count + 1, &room, 1)) break;
        int64_t want = room - *count;
        if (want > 1 << 24) want = 1 << 24;
        int got = gzread(file, *bytes + *count, (unsigned)want);
        if (got < 0) {
            int code;
            const char *why = gzerror(file, &code);
            return psgd__fail(PSGD_ERR_FORMAT, "cannot read %s: %s", path, code == Z_ERRNO ? strerror(errno) : why);
        }
        if (got == 0) return PSGD_OK;
        *count += got;
    }
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the contents of %s", path);
}

psgd_status psgd__file_read(const psgd_context *context, const char *path, unsigned char **bytes, int64_t *count)
{
    struct stat about;
    *bytes = NULL;
    gzFile file = gzopen(path, "rb");
    if (!file || stat(path, &about) != 0) {
        if (file) gzclose(file);
        return psgd__fail(PSGD_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    }
    psgd_status status = read_all(context, file, path, (int64_t)about.st_size + 1, bytes, count);
    int closed = gzclose(file);
    if (status == PSGD_OK && closed != Z_OK) {
        status = psgd__fail(PSGD_ERR_FORMAT, "%s is truncated or damaged", path);
    }
    if (status != PSGD_OK) {
        psgd__free(context, *bytes);
        *bytes = NULL;
    }
    return status;
}
