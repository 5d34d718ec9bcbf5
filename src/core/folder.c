#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static psgd_status refuse(const char *path, const char *what)
{
    return psgd__fail(PSGD_ERR_IO, "cannot %s %s: %s", what, path, strerror(errno));
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

psgd_status psgd__folder_lock(const char *path, int *lock)
{
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return refuse(path, "open the folder");
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return PSGD_OK;
    psgd__folder_unlock(*lock);
    *lock = -1;
    return psgd__fail(PSGD_ERR_IO, "another process is writing to %s; wait until it ends, or give another folder",
                      path);
}

void psgd__folder_unlock(int lock)
{
    if (lock >= 0) close(lock);
}

static bool is_partial(const char *name)
{
    const char *mark = NULL;
    for (const char *at = name; (at = strstr(at, FILE_PARTIAL)); at++) mark = at;
    if (!mark || mark == name) return false;
    const char *suffix = mark + strlen(FILE_PARTIAL);
    return *suffix && !suffix[strspn(suffix, "0123456789abcdef")];
}

void psgd__folder_sweep(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (is_partial(entry->d_name)) (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}
