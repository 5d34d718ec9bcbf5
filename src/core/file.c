#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *partial_name(const psgd_context *context, const char *path)
{
    size_t room = strlen(path) + 32;
    char *name = psgd__alloc(context, (int64_t)room, 1);
    if (name) snprintf(name, room, "%s.partial-%ld", path, (long)getpid());
    return name;
}

static void forget(file_writer *file)
{
    psgd__free(file->context, file->path);
    psgd__free(file->context, file->partial);
    *file = (file_writer){0};
}

static psgd_status refuse(const char *path, const char *what)
{
    return psgd__fail(PSGD_ERR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

psgd_status psgd__file_create(const psgd_context *context, const char *path, file_writer *file)
{
    *file = (file_writer){.context = context, .path = psgd__strdup(context, path)};
    file->partial = partial_name(context, path);
    if (!file->path || !file->partial) {
        forget(file);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to write %s", path);
    }
    struct stat there;
    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode)) {
        forget(file);
        return psgd__fail(PSGD_ERR_IO, "cannot write %s: there is a folder of that name", path);
    }
    file->stream = fopen(file->partial, "wbe");
    if (file->stream) return PSGD_OK;
    psgd_status status = refuse(path, "write");
    forget(file);
    return status;
}

psgd_status psgd__file_write(file_writer *file, const void *data, int64_t bytes)
{
    if (bytes == 0 || fwrite(data, 1, (size_t)bytes, file->stream) == (size_t)bytes) return PSGD_OK;
    return refuse(file->path, "write");
}

psgd_status psgd__file_finish(file_writer *file)
{
    FILE *stream = file->stream;
    if (!stream) return PSGD_OK;
    file->stream = NULL;
    bool written = fflush(stream) == 0 && fsync(fileno(stream)) == 0;
    int error = errno;
    if (fclose(stream) != 0 && written) return refuse(file->path, "write");
    errno = error;
    return written ? PSGD_OK : refuse(file->path, "write");
}

/* So that the new name outlasts a power cut. Not every file system can; the file itself is whole either way. */
static void sync_folder_of(const char *path)
{
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash) {
        size_t length = slash == path ? 1 : (size_t)(slash - path);
        if (length >= sizeof folder) return;
        memcpy(folder, path, length);
        folder[length] = 0;
    }
    int handle = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return;
    (void)fsync(handle);
    close(handle);
}

psgd_status psgd__file_publish(file_writer *file)
{
    psgd_status status = psgd__file_finish(file);
    if (status == PSGD_OK && rename(file->partial, file->path) != 0) status = refuse(file->path, "write");
    if (status != PSGD_OK) {
        psgd__file_abandon(file);
        return status;
    }
    sync_folder_of(file->path);
    forget(file);
    return PSGD_OK;
}

void psgd__file_abandon(file_writer *file)
{
    if (!file->path) return;
    if (file->stream) fclose(file->stream);
    unlink(file->partial);
    forget(file);
}

/* path with its last "up" parts left out; false where nothing is left. */
static bool ancestor(const char *path, int up, char to[PATH_MAX])
{
    size_t length = strlen(path);
    if (length >= PATH_MAX) return false;
    memcpy(to, path, length + 1);
    while (length > 1 && to[length - 1] == '/') to[--length] = 0;
    for (; up > 0; up--) {
        char *slash = strrchr(to, '/');
        if (!slash || slash == to) return false;
        while (slash > to && slash[-1] == '/') slash--;
        *slash = 0;
        if (!*to) return false;
    }
    return *to != 0;
}

psgd_status psgd__folder_create(const char *path, int *created)
{
    char part[PATH_MAX];
    struct stat there;
    int missing = 0;
    *created = 0;
    if (!ancestor(path, 0, part)) return psgd__fail(PSGD_ERR_IO, "'%s' cannot be the name of a folder", path);
    while (ancestor(path, missing, part)) {
        if (stat(part, &there) == 0) {
            if (S_ISDIR(there.st_mode)) break;
            return psgd__fail(PSGD_ERR_IO, "cannot create the folder %s: %s is not a folder", path, part);
        }
        if (errno != ENOENT) return refuse(path, "create the folder");
        missing++;
    }
    for (; missing > 0; missing--) {
        ancestor(path, missing - 1, part);
        if (mkdir(part, 0777) != 0) {
            psgd_status status = refuse(path, "create the folder");
            ancestor(path, missing, part);
            psgd__folder_remove(part, *created);
            *created = 0;
            return status;
        }
        ++*created;
    }
    if (access(path, W_OK | X_OK) != 0) return refuse(path, "write into the folder");
    return PSGD_OK;
}

void psgd__folder_remove(const char *path, int created)
{
    char part[PATH_MAX];
    for (int up = 0; up < created; up++) {
        if (!ancestor(path, up, part) || rmdir(part) != 0) return;
    }
}
