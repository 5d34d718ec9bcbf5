/* psgd_optimizer_save, killed at any moment, leaves the old state or the new one.
 *
 * A child saves over an old state and is killed: at each call that it makes of the file system, then at random moments.
 * The calls are wrapped by the linker. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char path[] = "test_optim_kill.state";
enum { N = 50000 };

static long calls_left = -1; /* until the kill; below 0: never */
static double x[N], g[N];
static int leftovers; /* temporary files of killed children */

static void one_call(void)
{
    if (calls_left >= 0 && calls_left-- == 0) raise(SIGKILL);
}

int __real_open(const char *name, int flags, ...);
size_t __real_fwrite(const void *data, size_t size, size_t count, FILE *file);
int __real_fflush(FILE *file);
int __real_fsync(int handle);
int __real_fclose(FILE *file);
int __real_linkat(int folder, const char *from, int other, const char *to, int flags);
int __real_rename(const char *from, const char *to);
int __wrap_open(const char *name, int flags, ...);
size_t __wrap_fwrite(const void *data, size_t size, size_t count, FILE *file);
int __wrap_fflush(FILE *file);
int __wrap_fsync(int handle);
int __wrap_fclose(FILE *file);
int __wrap_linkat(int folder, const char *from, int other, const char *to, int flags);
int __wrap_rename(const char *from, const char *to);

static bool no_unnamed_files; /* as on file systems that have none */

int __wrap_open(const char *name, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    one_call();
    if (no_unnamed_files && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_open(name, flags, mode);
}

/* In two halves, both on their way to the disk, so that a kill between them leaves half a file. */
size_t __wrap_fwrite(const void *data, size_t size, size_t count, FILE *file)
{
    size_t first = size == 1 ? count / 2 : count;
    one_call();
    size_t done = __real_fwrite(data, size, first, file);
    if (first == count) return done;
    __real_fflush(file);
    one_call();
    return done + __real_fwrite((const char *)data + first, size, count - first, file);
}

int __wrap_fflush(FILE *file)
{
    one_call();
    return __real_fflush(file);
}

int __wrap_fsync(int handle)
{
    one_call();
    return __real_fsync(handle);
}

int __wrap_fclose(FILE *file)
{
    one_call();
    return __real_fclose(file);
}

int __wrap_linkat(int folder, const char *from, int other, const char *to, int flags)
{
    one_call();
    return __real_linkat(folder, from, other, to, flags);
}

int __wrap_rename(const char *from, const char *to)
{
    one_call();
    return __real_rename(from, to);
}

static psgd_optimizer *make(int steps)
{
    const int64_t n = N;
    const psgd_tensor tensor = {.ndim = 1, .shape = &n};
    psgd_optimizer *o;
    assert_ok(psgd_optimizer_create(NULL, "momentum", 1, &tensor, PSGD_F64, NULL, &o));
    for (int i = 0; i < N; i++) g[i] = i % 7;
    for (int t = 0; t < steps; t++) assert_ok(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){g}, NULL, NULL));
    return o;
}

/* Loads what is there and returns how many steps it has taken. */
static int64_t steps_on_disk(void)
{
    psgd_optimizer *o = make(0);
    assert_ok(psgd_optimizer_load(o, path));
    int64_t steps = psgd_optimizer_steps(o);
    psgd_optimizer_free(o);
    return steps;
}

/* The temporary files that are there, which are then removed. */
static int sweep(void)
{
    int count = 0;
    DIR *folder = opendir(".");
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (strncmp(entry->d_name, path, strlen(path)) != 0 || !entry->d_name[strlen(path)]) continue;
        count++;
        unlink(entry->d_name);
    }
    closedir(folder);
    return count;
}

/* The child saves; true where it lived to the end. A killed one leaves a temporary file at most between two calls, and
 * where files without a name are not to be had. */
static bool save_in_child(const psgd_optimizer *o, long calls, long nanoseconds)
{
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        calls_left = calls;
        for (;;) {
            if (psgd_optimizer_save(o, path) != PSGD_OK) _exit(1);
            if (nanoseconds == 0) _exit(0);
        }
    }
    if (nanoseconds) {
        nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
        kill(child, SIGKILL);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    int left = sweep();
    assert_true(left <= 1);
    leftovers += left;
    if (WIFEXITED(how)) assert_int_equal(WEXITSTATUS(how), 0);
    if (WIFEXITED(how)) assert_int_equal(left, 0);
    return WIFEXITED(how);
}

static void kill_at_every_call(void)
{
    leftovers = 0;
    psgd_optimizer *old = make(3), *new = make(5);
    int left_old = 0, left_new = 0;
    bool ended = false;
    for (long calls = 0; !ended; calls++) {
        assert_in_range(calls, 0, 50);
        assert_ok(psgd_optimizer_save(old, path));
        ended = save_in_child(new, calls, 0);
        int64_t steps = steps_on_disk();
        assert_true(steps == 3 || steps == 5);
        assert_true(!ended || steps == 5);
        left_old += steps == 3;
        left_new += steps == 5;
    }
    assert_true(left_old >= 5 && left_new >= 2); /* before the rename, and after it */
    psgd_optimizer_free(old);
    psgd_optimizer_free(new);
    unlink(path);
}

static void a_kill_at_any_call_leaves_the_old_state_or_the_new_one(void **state)
{
    (void)state;
    kill_at_every_call();
    assert_true(leftovers <= 1); /* between linkat and rename */
    no_unnamed_files = true;
    kill_at_every_call();
    no_unnamed_files = false;
    assert_true(leftovers >= 3);
}

static void a_kill_at_any_moment_leaves_a_whole_file(void **state)
{
    (void)state;
    psgd_optimizer *o[] = {make(3), make(5)};
    uint64_t random = 11;
    assert_ok(psgd_optimizer_save(o[0], path));
    for (int k = 0; k < 40; k++) {
        assert_false(save_in_child(o[k % 2], -1, 1 + random_below(&random, 8000000)));
        int64_t steps = steps_on_disk();
        assert_true(steps == 3 || steps == 5);
    }
    psgd_optimizer_free(o[0]);
    psgd_optimizer_free(o[1]);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_call_leaves_the_old_state_or_the_new_one),
        cmocka_unit_test(a_kill_at_any_moment_leaves_a_whole_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
