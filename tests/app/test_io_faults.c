/* Every call into the file system may fail, as on a full disk: afterwards each file is the old one or the new one,
 * whole, and nothing else is there. A run whose k-th call has failed still comes to the end of an undisturbed one.
 *
 * The linker wraps the calls. The k-th fails once, or all from the k-th on do, for every k that the undisturbed job
 * has. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/memory.h"
#include "data/format/npy.h"
#include "report/report.h"
#include "train/checkpoint.h"
#include "train/fit.h"

static struct {
    bool on, lasting, no_unnamed;
    long calls, fail_at;
    bool failed; /* a call has */
    bool dirty;  /* written and not synced */
} faults;

static bool fails_now(void)
{
    if (!faults.on) return false;
    long k = faults.calls++;
    bool now = faults.fail_at >= 0 && (faults.lasting ? k >= faults.fail_at : k == faults.fail_at);
    if (now) errno = ENOSPC;
    faults.failed = faults.failed || now;
    return now;
}

int __real_open(const char *name, int flags, ...);
FILE *__real_fopen(const char *name, const char *mode);
FILE *__real_fdopen(int handle, const char *mode);
size_t __real_fwrite(const void *data, size_t size, size_t count, FILE *file);
int __real_fflush(FILE *file);
int __real_fsync(int handle);
int __real_fclose(FILE *file);
int __real_close(int handle);
int __real_linkat(int folder, const char *from, int other, const char *to, int flags);
int __real_rename(const char *from, const char *to);
int __real_mkdir(const char *name, mode_t mode);
int __real_ftruncate(int handle, off_t bytes);
int __wrap_open(const char *name, int flags, ...);
FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__wrap_fdopen(int handle, const char *mode);
size_t __wrap_fwrite(const void *data, size_t size, size_t count, FILE *file);
int __wrap_fflush(FILE *file);
int __wrap_fsync(int handle);
int __wrap_fclose(FILE *file);
int __wrap_close(int handle);
int __wrap_linkat(int folder, const char *from, int other, const char *to, int flags);
int __wrap_rename(const char *from, const char *to);
int __wrap_mkdir(const char *name, mode_t mode);
int __wrap_ftruncate(int handle, off_t bytes);

int __wrap_open(const char *name, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (fails_now()) return -1;
    /* Somebody may have put a link where a temporary file is to be. */
    if (faults.on && (flags & O_CREAT)) assert_int_equal(flags & (O_EXCL | O_NOFOLLOW), O_EXCL | O_NOFOLLOW);
    if (faults.on && faults.no_unnamed && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_open(name, flags, mode);
}

FILE *__wrap_fopen(const char *name, const char *mode)
{
    return fails_now() ? NULL : __real_fopen(name, mode);
}

FILE *__wrap_fdopen(int handle, const char *mode)
{
    return fails_now() ? NULL : __real_fdopen(handle, mode);
}

/* A disk that fills up has taken half of it. */
size_t __wrap_fwrite(const void *data, size_t size, size_t count, FILE *file)
{
    faults.dirty = true;
    if (!fails_now()) return __real_fwrite(data, size, count, file);
    size_t half = __real_fwrite(data, size, count / 2, file);
    __real_fflush(file);
    errno = ENOSPC;
    return half;
}

/* What could not be written is gone: nobody may count on a later flush. */
int __wrap_fflush(FILE *file)
{
    if (!fails_now()) return __real_fflush(file);
    __fpurge(file);
    return EOF;
}

int __wrap_fsync(int handle)
{
    if (fails_now()) return -1;
    faults.dirty = false;
    return __real_fsync(handle);
}

int __wrap_fclose(FILE *file)
{
    bool failing = fails_now();
    int closed = __real_fclose(file);
    errno = ENOSPC;
    return failing ? EOF : closed;
}

int __wrap_close(int handle)
{
    bool failing = fails_now();
    int closed = __real_close(handle);
    return failing ? -1 : closed;
}

int __wrap_linkat(int folder, const char *from, int other, const char *to, int flags)
{
    return fails_now() ? -1 : __real_linkat(folder, from, other, to, flags);
}

/* What gets its name is on the disk by then: a power cut leaves no file that is half there. */
int __wrap_rename(const char *from, const char *to)
{
    assert_false(faults.on && faults.dirty);
    return fails_now() ? -1 : __real_rename(from, to);
}

int __wrap_mkdir(const char *name, mode_t mode)
{
    return fails_now() ? -1 : __real_mkdir(name, mode);
}

int __wrap_ftruncate(int handle, off_t bytes)
{
    return fails_now() ? -1 : __real_ftruncate(handle, bytes);
}

/* --- jobs */

static char root[64];
static char place[96]; /* the folder of a trial */

typedef struct job {
    const char *name;
    void (*prepare)(void);      /* the old files */
    psgd_status (*run)(void);   /* makes the new ones */
    void (*check)(bool failed); /* what is there then, beyond old or new */
} job;

static const char *in_place(const char *name)
{
    static char path[4][160];
    static int turn;
    char *at = path[turn++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", place, name);
    return at;
}

static void remove_all(const char *folder)
{
    char path[512];
    DIR *all = opendir(folder);
    if (!all) return;
    for (const struct dirent *entry; (entry = readdir(all));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (unlink(path) != 0) remove_all(path);
    }
    closedir(all);
    rmdir(folder);
}

enum { MAX_FILES = 8 };
typedef struct contents {
    int count;
    char name[MAX_FILES][64];
    unsigned char *bytes[MAX_FILES];
    int64_t size[MAX_FILES];
} contents;

static contents look(void)
{
    contents seen = {0};
    DIR *all = opendir(place);
    for (const struct dirent *entry; all && (entry = readdir(all));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        assert_true(seen.count < MAX_FILES && strlen(entry->d_name) < 64);
        snprintf(seen.name[seen.count], 64, "%.63s", entry->d_name);
        assert_ok(
            psgd__file_read_whole(NULL, in_place(entry->d_name), &seen.bytes[seen.count], &seen.size[seen.count]));
        seen.count++;
    }
    if (all) closedir(all);
    return seen;
}

static void forget(contents *seen)
{
    for (int i = 0; i < seen->count; i++) psgd__free(NULL, seen->bytes[i]);
}

static bool holds(const contents *in, const char *name, const unsigned char *bytes, int64_t size)
{
    for (int i = 0; i < in->count; i++) {
        if (!strcmp(in->name[i], name) && in->size[i] == size && !memcmp(in->bytes[i], bytes, (size_t)size))
            return true;
    }
    return false;
}

static psgd_status with_faults(const job *work, long fail_at, bool lasting, bool no_unnamed)
{
    memset(&faults, 0, sizeof faults);
    faults.fail_at = fail_at;
    faults.lasting = lasting;
    faults.no_unnamed = no_unnamed;
    faults.on = true;
    psgd_status status = work->run();
    faults.on = false;
    return status;
}

static void fail_everywhere(const job *work)
{
    remove_all(place);
    work->prepare();
    contents before = look();
    assert_ok(with_faults(work, -1, false, true));
    long calls = faults.calls;
    contents after = look();
    assert_true(calls >= 5);
    for (long k = 0; k < 2 * 2 * calls; k++) {
        bool lasting = k & 1, no_unnamed = k & 2;
        if (!every_case() && (lasting == no_unnamed) != (k / 4 % 2)) continue; /* two of four ways for each call */
        remove_all(place);
        work->prepare();
        psgd_status status = with_faults(work, k / 4, lasting, no_unnamed);
        contents now = look();
        for (int i = 0; i < now.count && !work->check; i++) {
            if (holds(&before, now.name[i], now.bytes[i], now.size[i])) continue;
            if (holds(&after, now.name[i], now.bytes[i], now.size[i])) continue;
            fail_msg("%s: call %ld fails: %s is neither old nor new", work->name, k / 4, now.name[i]);
        }
        if (now.count < before.count) fail_msg("%s: call %ld fails: a file is gone", work->name, k / 4);
        if (status == PSGD_OK) assert_int_equal(now.count, after.count);
        if (status == PSGD_OK && !work->check) {
            for (int i = 0; i < now.count; i++) assert_true(holds(&after, now.name[i], now.bytes[i], now.size[i]));
        }
        if (status != PSGD_OK) assert_true(faults.failed && strlen(psgd_last_error()) > 10);
        forget(&now);
        if (work->check) work->check(status != PSGD_OK);
    }
    forget(&before);
    forget(&after);
}

/* --- an optimizer's state */

static psgd_optimizer *stepped(int steps)
{
    static const int64_t n = 3000;
    static double x[3000], g[3000];
    const psgd_tensor tensor = {.ndim = 1, .shape = &n};
    psgd_optimizer *o;
    assert_ok(psgd_optimizer_create(NULL, "momentum", 1, &tensor, PSGD_F64, NULL, &o));
    for (int i = 0; i < n; i++) g[i] = i % 7;
    for (int t = 0; t < steps; t++) assert_ok(psgd_optimizer_step(o, (void *[]){x}, (const void *[]){g}, NULL, NULL));
    return o;
}

static psgd_status save(int steps)
{
    psgd_optimizer *o = stepped(steps);
    psgd_status status = psgd_optimizer_save(o, in_place("state"));
    psgd_optimizer_free(o);
    return status;
}

static void old_state(void)
{
    mkdir(place, 0777);
    assert_ok(save(1));
}

static psgd_status new_state(void)
{
    return save(2);
}

static void a_saved_state_is_the_old_or_the_new_one(void **state)
{
    (void)state;
    fail_everywhere(&(job){"save", old_state, new_state, NULL});
}

/* --- a report */

static void old_page(void)
{
    mkdir(place, 0777);
    metrics_log *log;
    metrics_header header = {.run = "r", .method = "m", .task = "t"};
    assert_ok(psgd__metrics_create(NULL, place, &header, &log));
    for (int i = 0; i < 3; i++) {
        assert_ok(psgd__metrics_point(log, (metrics_time){i, i, i}, "train", &(metric){"loss", i}, 1));
    }
    psgd__metrics_close(log);
    FILE *page = fopen(in_place("page.html"), "w");
    fputs("the old page", page);
    fclose(page);
}

static psgd_status new_page(void)
{
    report made = {0};
    psgd_status status = psgd__report_add(&made, place);
    if (status == PSGD_OK) status = psgd__report_page(&made, in_place("page.html"));
    psgd__report_free(&made);
    return status;
}

static void a_page_is_the_old_or_the_new_one(void **state)
{
    (void)state;
    fail_everywhere(&(job){"report", old_page, new_page, NULL});
}

/* --- a fit */

static void write_npy(const char *name, int64_t count, const double *x)
{
    file_writer file;
    assert_ok(psgd__file_create(NULL, name, &file));
    assert_ok(psgd__npy_write_header(&file, PSGD_F64, 2, (const int64_t[]){count / 2, 2}));
    assert_ok(psgd__file_write(&file, x, count * 8));
    assert_ok(psgd__file_publish(&file));
}

static char h_path[96];

static psgd_status fit(const char *seed)
{
    text summary = {0};
    fit_job work = {.group = "kron(tri)",
                    .ndim = 1,
                    .shape = (const int64_t[]){2},
                    .dtype = PSGD_F64,
                    .h = h_path,
                    .apply = h_path,
                    .seed = (uint64_t)*seed,
                    .out = place,
                    .report = in_place("report.jsonl")};
    psgd_status status = psgd__fit_run(NULL, &work, &summary);
    psgd__text_free(&summary);
    return status;
}

static void old_fit(void)
{
    const double h[] = {1, 2, 3, 4, -5, 6};
    snprintf(h_path, sizeof h_path, "%s/h.npy", root);
    write_npy(h_path, 6, h);
    assert_ok(fit("a"));
}

static psgd_status new_fit(void)
{
    return fit("b");
}

static void no_fit(void)
{
}

static void fits_are_the_old_or_the_new_ones(void **state)
{
    (void)state;
    fail_everywhere(&(job){"fit", old_fit, new_fit, NULL});
    fail_everywhere(&(job){"first fit", no_fit, new_fit, NULL});
}

/* --- a run: log, checkpoints, weights */

static const train_setting settings[] = {
    {"model", "logistic"}, {"data", "xor"},           {"optimizer", "psgd-newton"}, {"out", place},    {"steps", "6"},
    {"batch", "4"},        {"checkpoint-every", "2"}, {"log-every", "1"},           {"samples", "12"},
};

static psgd_status train(bool resume)
{
    trainer *run;
    bool stopped;
    psgd_status status = resume ? psgd__trainer_resume(NULL, NULL, place, 0, NULL, &run)
                                : psgd__trainer_create(NULL, NULL, (int)(sizeof settings / sizeof settings[0]),
                                                       settings, &run);
    if (status != PSGD_OK) return status;
    status = psgd__trainer_run(run, NULL, &stopped);
    psgd__trainer_free(run);
    return status;
}

static psgd_status first_run(void)
{
    return train(false);
}

static psgd_status resumed_run(void)
{
    return train(true);
}

/* What is left of a run does not depend on when it was disturbed; its seconds do. */
typedef struct outcome {
    uint64_t weights, optimizer, file, log;
} outcome;

static uint64_t sum_of(const void *bytes, int64_t count)
{
    uint64_t sum = 5381;
    for (int64_t i = 0; i < count; i++) sum = sum * 33 + ((const unsigned char *)bytes)[i];
    return sum;
}

static outcome come_to(void)
{
    outcome is = {0};
    checkpoint file;
    metrics_run *run;
    unsigned char *bytes;
    int64_t count;
    assert_ok(psgd__checkpoint_open(NULL, place, &file));
    const void *section = psgd__checkpoint_section(&file, "weights", &count);
    is.weights = sum_of(section, count);
    section = psgd__checkpoint_section(&file, "optimizer", &count);
    is.optimizer = sum_of(section, count);
    psgd__checkpoint_close(&file);
    assert_ok(psgd__file_read_whole(NULL, in_place(WEIGHTS_FILE), &bytes, &count));
    is.file = sum_of(bytes, count);
    psgd__free(NULL, bytes);
    assert_ok(psgd__metrics_read(NULL, place, &run));
    assert_true(run->finished);
    for (int i = 0; i < run->curve_count; i++) {
        const metrics_curve *c = &run->curves[i];
        if (strstr(c->name, "second")) continue;
        for (int64_t k = 0; k < c->count; k++) {
            is.log = is.log * 31 + sum_of(&c->when[k].step, 8) + sum_of(&c->value[k], 8);
        }
    }
    psgd__metrics_free(run);
    return is;
}

static outcome undisturbed;

static void check_run(bool failed)
{
    checkpoint file;
    contents now = look();
    for (int i = 0; i < now.count; i++) {
        assert_true(!strcmp(now.name[i], METRICS_FILE) || !strcmp(now.name[i], CHECKPOINT_FILE) ||
                    !strcmp(now.name[i], WEIGHTS_FILE));
    }
    forget(&now);
    if (failed) {
        bool begun = access(in_place(CHECKPOINT_FILE), F_OK) == 0;
        if (begun) {
            assert_ok(psgd__checkpoint_open(NULL, place, &file));
            psgd__checkpoint_close(&file);
        }
        assert_ok(train(begun));
    }
    outcome is = come_to();
    assert_int_equal(is.weights, undisturbed.weights);
    assert_int_equal(is.optimizer, undisturbed.optimizer);
    assert_int_equal(is.file, undisturbed.file);
    assert_int_equal(is.log, undisturbed.log);
}

/* Stopped after its first step, with a checkpoint. */
static void half_a_run(void)
{
    trainer *run;
    bool stopped;
    sig_atomic_t now = 1;
    train_watch watch = {.stop = &now};
    assert_ok(psgd__trainer_create(NULL, NULL, (int)(sizeof settings / sizeof settings[0]), settings, &run));
    assert_ok(psgd__trainer_run(run, &watch, &stopped));
    assert_true(stopped);
    psgd__trainer_free(run);
}

static void a_run_whose_files_failed_can_be_continued(void **state)
{
    (void)state;
    remove_all(place);
    assert_ok(first_run());
    undisturbed = come_to();
    fail_everywhere(&(job){"run", no_fit, first_run, check_run});
    fail_everywhere(&(job){"resumed run", half_a_run, resumed_run, check_run});
}

static int enter(void **state)
{
    (void)state;
    /* Thousands of syncs: in memory, where there is a file system for that. */
    snprintf(root, sizeof root, "%s/psgd_io_faults_XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (psgd_set_threads(1) != PSGD_OK || !mkdtemp(root)) return -1;
    snprintf(place, sizeof place, "%s/place", root);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_all(root);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_state_is_the_old_or_the_new_one),
        cmocka_unit_test(a_page_is_the_old_or_the_new_one),
        cmocka_unit_test(fits_are_the_old_or_the_new_ones),
        cmocka_unit_test(a_run_whose_files_failed_can_be_continued),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
