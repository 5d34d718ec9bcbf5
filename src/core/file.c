#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* FOLDER/NAME.partial-RANDOM: nobody can guess it, and however long the name is there is room for the rest. */
static psgd_status choose_partial(file_writer *file)
{
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) return refuse(file->path, "write");
    enum { KEPT = NAME_MAX - sizeof FILE_PARTIAL - 2 * sizeof random };
    snprintf(file->partial, strlen(file->path) + FILE_PARTIAL_ROOM, "%.*s%.*s%s%016llx", (int)(name - file->path),
             file->path, (int)KEPT, name, FILE_PARTIAL, (unsigned long long)random);
    return PSGD_OK;
}

/* Where the system has them, a file without a name: a killed process leaves nothing behind. */
static int open_unnamed(const char *path, mode_t mode)
{
#ifdef O_TMPFILE
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 0;
    if (access("/proc/self/fd", X_OK) != 0) return -1; /* what link_unnamed needs */
    snprintf(folder, sizeof folder, "%.*s%s", length, path, slash ? "/" : ".");
    return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
#else
    (void)path, (void)mode;
    return -1;
#endif
}

static bool link_unnamed(const file_writer *file)
{
    char handle[64];
    snprintf(handle, sizeof handle, "/proc/self/fd/%d", fileno(file->stream));
    return linkat(AT_FDCWD, handle, AT_FDCWD, file->partial, AT_SYMLINK_FOLLOW) == 0;
}

/* The new file has the permissions of the one that it replaces; nobody gets to read it who could not read that. */
static bool keep_permissions(int handle, const struct stat *old)
{
    mode_t mode = old->st_mode & 0777;
    if (fchown(handle, old->st_uid, old->st_gid) != 0) mode &= 0700;
    return fchmod(handle, mode) == 0;
}

static psgd_status open_partial(file_writer *file, const struct stat *old)
{
    mode_t mode = old ? 0600 : 0666;
    PSGD_TRY(choose_partial(file));
    int handle = open_unnamed(file->path, mode);
    file->named = handle < 0;
    if (handle < 0) handle = open(file->partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (handle < 0) return refuse(file->path, "write");
    if ((!old || keep_permissions(handle, old)) && (file->stream = fdopen(handle, "wb"))) return PSGD_OK;
    psgd_status status = refuse(file->path, "write");
    if (file->named) unlink(file->partial);
    close(handle);
    return status;
}

/* The descriptor that a name such as /dev/stdout stands for, or -1. Opening the name would begin a file anew that the
 * shell appends to. */
static int descriptor_of(const char *path)
{
    int handle = -1, length = 0;
    if (!strcmp(path, "/dev/stdout")) return STDOUT_FILENO;
    if (!strcmp(path, "/dev/stderr")) return STDERR_FILENO;
    bool found = sscanf(path, "/dev/fd/%5d%n", &handle, &length) == 1 ||
                 sscanf(path, "/proc/self/fd/%5d%n", &handle, &length) == 1;
    return found && !path[length] ? handle : -1;
}

/* A terminal, a pipe or a device has no contents to replace: it is written to as it is. */
static psgd_status open_through(file_writer *file)
{
    int handle = descriptor_of(file->path);
    handle = handle >= 0 ? fcntl(handle, F_DUPFD_CLOEXEC, 0) : open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    file->through = true;
    if (handle >= 0 && (file->stream = fdopen(handle, "wb"))) return PSGD_OK;
    psgd_status status = refuse(file->path, "write");
    if (handle >= 0) close(handle);
    return status;
}

/* The name to write to, with links followed, so that a link stays one. */
static psgd_status resolve(const psgd_context *context, const char *path, char **resolved)
{
    struct stat link;
    bool linked = descriptor_of(path) < 0 && lstat(path, &link) == 0 && S_ISLNK(link.st_mode);
    char *target = linked ? realpath(path, NULL) : NULL;
    if (linked && !target) {
        return psgd__fail(PSGD_ERR_IO, "cannot write %s: it is a link to a file that does not exist", path);
    }
    *resolved = psgd__strdup(context, target ? target : path);
    free(target);
    return *resolved ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to write %s", path);
}

static psgd_status open_writer(file_writer *file)
{
    struct stat old;
    if (descriptor_of(file->path) >= 0) return open_through(file);
    if (stat(file->path, &old) != 0) return errno == ENOENT ? open_partial(file, NULL) : refuse(file->path, "write");
    if (S_ISDIR(old.st_mode)) {
        return psgd__fail(PSGD_ERR_IO, "cannot write %s: there is a folder of that name", file->path);
    }
    return S_ISREG(old.st_mode) ? open_partial(file, &old) : open_through(file);
}

psgd_status psgd__file_create(const psgd_context *context, const char *path, file_writer *file)
{
    *file = (file_writer){.context = context};
    PSGD_TRY(resolve(context, path, &file->path));
    file->partial = psgd__alloc(context, (int64_t)strlen(file->path) + FILE_PARTIAL_ROOM, 1);
    psgd_status status = file->partial ? open_writer(file)
                                       : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to write %s", path);
    if (status != PSGD_OK) forget(file);
    return status;
}

psgd_status psgd__file_write(file_writer *file, const void *data, int64_t bytes)
{
    if (bytes == 0 || fwrite(data, 1, (size_t)bytes, file->stream) == (size_t)bytes) return PSGD_OK;
    return refuse(file->path, "write");
}

psgd_status psgd__file_finish(file_writer *file)
{
    if (file->finished) return PSGD_OK;
    bool written = fflush(file->stream) == 0;
    /* Not every device can be synced. */
    if (written && !file->through) written = fsync(fileno(file->stream)) == 0;
    file->finished = written;
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

static psgd_status take_place(file_writer *file)
{
    if (!file->named && !link_unnamed(file)) return refuse(file->path, "write");
    file->named = true;
    if (rename(file->partial, file->path) != 0) return refuse(file->path, "write");
    file->named = false;
    return PSGD_OK;
}

psgd_status psgd__file_publish(file_writer *file)
{
    psgd_status status = psgd__file_finish(file);
    if (status == PSGD_OK && !file->through) status = take_place(file);
    if (status == PSGD_OK) {
        int closed = fclose(file->stream);
        file->stream = NULL;
        if (file->through && closed != 0) status = refuse(file->path, "write");
    }
    if (status == PSGD_OK && !file->through) sync_folder_of(file->path);
    psgd__file_abandon(file);
    return status;
}

void psgd__file_abandon(file_writer *file)
{
    if (!file->path) return;
    if (file->stream) fclose(file->stream);
    if (file->named) unlink(file->partial);
    forget(file);
}

psgd_status psgd__file_open(const char *path, int *handle, int64_t *bytes)
{
    struct stat about;
    *handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe without a writer does not block */
    if (*handle < 0) return psgd__fail(PSGD_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    bool known = fstat(*handle, &about) == 0;
    if (known && S_ISREG(about.st_mode)) {
        *bytes = (int64_t)about.st_size;
        return PSGD_OK;
    }
    close(*handle);
    if (!known) return refuse(path, "read");
    return psgd__fail(PSGD_ERR_IO, "cannot read %s: it is %s, not a file", path,
                      S_ISDIR(about.st_mode) ? "a folder" : "a pipe or a device");
}

psgd_status psgd__file_read_whole(const psgd_context *context, const char *path, unsigned char **bytes, int64_t *count)
{
    int handle;
    *bytes = NULL;
    PSGD_TRY(psgd__file_open(path, &handle, count));
    psgd_status status = PSGD_OK;
    *bytes = psgd__alloc(context, *count, 1);
    if (!*bytes) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the %lld bytes of %s", (long long)*count, path);
    for (int64_t done = 0; status == PSGD_OK && done < *count;) {
        ssize_t got = read(handle, *bytes + done, (size_t)(*count - done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) status = refuse(path, "read");
        if (got == 0) status = psgd__fail(PSGD_ERR_IO, "cannot read %s: it became shorter meanwhile", path);
        done += got;
    }
    close(handle);
    if (status != PSGD_OK) {
        psgd__free(context, *bytes);
        *bytes = NULL;
    }
    return status;
}
