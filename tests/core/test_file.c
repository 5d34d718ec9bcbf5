/* Files are replaced atomically; links, permissions, pipes and devices stay what they were. */
#include "support.h"

#include "core/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "test_file.XXXXXX", here[4096];

static int enter(void **state)
{
    (void)state;
    return !getcwd(here, sizeof here) || !mkdtemp(folder) || chdir(folder);
}

static int leave(void **state)
{
    (void)state;
    return chdir(here) || rmdir(folder);
}

static psgd_status put(const char *path, const char *words)
{
    file_writer file;
    psgd_status status = psgd__file_create(NULL, path, &file);
    if (status != PSGD_OK) return status;
    assert_ok(psgd__file_write(&file, words, (int64_t)strlen(words)));
    return psgd__file_publish(&file);
}

static void assert_contents(const char *path, const char *words)
{
    char found[256] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t count = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    found[count] = 0;
    assert_string_equal(found, words);
}

static int entries(void)
{
    int count = 0;
    DIR *all = opendir(".");
    for (const struct dirent *entry; (entry = readdir(all));) count += entry->d_name[0] != '.';
    closedir(all);
    return count;
}

static mode_t mode_of(const char *path)
{
    struct stat about;
    assert_int_equal(lstat(path, &about), 0);
    return about.st_mode;
}

static void a_file_is_replaced_and_nothing_else_is_there(void **state)
{
    (void)state;
    file_writer file;
    assert_ok(put("a", "old"));
    assert_ok(psgd__file_create(NULL, "a", &file));
    assert_ok(psgd__file_write(&file, "half", 4));
    psgd__file_abandon(&file);
    assert_contents("a", "old");
    assert_int_equal(entries(), 1);
    assert_ok(put("a", "new"));
    assert_contents("a", "new");
    assert_int_equal(entries(), 1);
    unlink("a");
}

static void permissions_stay(void **state)
{
    (void)state;
    mode_t before = umask(022);
    assert_ok(put("secret", "old"));
    assert_int_equal(mode_of("secret") & 0777, 0644);
    assert_int_equal(chmod("secret", 0600), 0);
    assert_ok(put("secret", "new"));
    assert_int_equal(mode_of("secret") & 0777, 0600);
    umask(before);
    unlink("secret");
}

static void a_link_stays_a_link(void **state)
{
    (void)state;
    assert_ok(put("target", "old"));
    assert_int_equal(symlink("target", "link"), 0);
    assert_ok(put("link", "new"));
    assert_true(S_ISLNK(mode_of("link")));
    assert_contents("target", "new");
    unlink("target");
    assert_fails(put("link", "lost"), PSGD_ERR_IO, "link to a file that does not exist");
    unlink("link");
    assert_int_equal(entries(), 0);
}

static void a_pipe_and_a_device_are_written_through(void **state)
{
    (void)state;
    char got[8] = "";
    assert_int_equal(mkfifo("pipe", 0600), 0);
    int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    assert_ok(put("pipe", "words"));
    assert_int_equal(read(reader, got, sizeof got), 5);
    assert_string_equal(got, "words");
    close(reader);
    assert_true(S_ISFIFO(mode_of("pipe")));
    unlink("pipe");

    assert_ok(put("/dev/null", "words"));
    assert_true(S_ISCHR(mode_of("/dev/null")));
    assert_int_equal(entries(), 0);
}

/* The names of descriptors are the descriptors: what is there already stays, as after >> in a shell. */
static void standard_output_is_appended_to(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        int to = open("out", O_WRONLY | O_CREAT, 0600);
        bool done = to >= 0 && write(to, "first ", 6) == 6 && dup2(to, 1) == 1 &&
                    put("/dev/stdout", "second ") == PSGD_OK && put("/dev/fd/1", "third") == PSGD_OK;
        _exit(!done);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_contents("out", "first second third");
    unlink("out");
}

static void the_longest_name_is_written(void **state)
{
    (void)state;
    char name[257];
    memset(name, 'n', 256);
    name[255] = name[256] = 0;
    assert_ok(put(name, "long"));
    assert_contents(name, "long");
    unlink(name);
    name[255] = 'n';
    assert_fails(put(name, "longer"), PSGD_ERR_IO, "cannot write");
    assert_int_equal(entries(), 0);
}

/* Whoever can write to the folder cannot make us write elsewhere: the names of temporary files cannot be guessed. */
static void temporary_names_differ(void **state)
{
    (void)state;
    file_writer one, two;
    assert_ok(psgd__file_create(NULL, "a", &one));
    assert_ok(psgd__file_create(NULL, "a", &two));
    assert_string_not_equal(one.partial, two.partial);
    psgd__file_abandon(&one);
    psgd__file_abandon(&two);
    assert_int_equal(entries(), 0);
}

static void what_killed_processes_left_is_swept(void **state)
{
    (void)state;
    static const char *const left[] = {"a.partial-0123456789abcdef", "checkpoint.psgd.partial-4711"};
    static const char *const kept[] = {"a", "a.partial-", "a.partial-notes", ".partial-12"};
    for (int i = 0; i < 2; i++) assert_ok(put(left[i], "x"));
    for (int i = 0; i < 4; i++) assert_ok(put(kept[i], "x"));
    psgd__folder_sweep(".");
    for (int i = 0; i < 2; i++) assert_int_not_equal(access(left[i], F_OK), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(unlink(kept[i]), 0);
}

static void a_folder_has_one_writer(void **state)
{
    (void)state;
    int first, second;
    assert_ok(psgd__folder_lock(".", &first));
    assert_fails(psgd__folder_lock(".", &second), PSGD_ERR_IO, "another process is writing to .");
    assert_int_equal(second, -1);
    psgd__folder_unlock(first);
    assert_ok(psgd__folder_lock(".", &second));
    psgd__folder_unlock(second);
    assert_fails(psgd__folder_lock("nothing", &first), PSGD_ERR_IO, "cannot open the folder nothing");
}

static void only_files_are_read(void **state)
{
    (void)state;
    unsigned char *bytes;
    int64_t count;
    assert_fails(psgd__file_read_whole(NULL, ".", &bytes, &count), PSGD_ERR_IO, "a folder");
    assert_fails(psgd__file_read_whole(NULL, "/dev/zero", &bytes, &count), PSGD_ERR_IO, "a device");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_fails(psgd__file_read_whole(NULL, "pipe", &bytes, &count), PSGD_ERR_IO, "a pipe"); /* and does not wait */
    unlink("pipe");
    assert_fails(psgd__file_read_whole(NULL, "nothing", &bytes, &count), PSGD_ERR_IO, "cannot open nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_replaced_and_nothing_else_is_there),
        cmocka_unit_test(permissions_stay),
        cmocka_unit_test(a_link_stays_a_link),
        cmocka_unit_test(a_pipe_and_a_device_are_written_through),
        cmocka_unit_test(standard_output_is_appended_to),
        cmocka_unit_test(the_longest_name_is_written),
        cmocka_unit_test(temporary_names_differ),
        cmocka_unit_test(what_killed_processes_left_is_swept),
        cmocka_unit_test(a_folder_has_one_writer),
        cmocka_unit_test(only_files_are_read),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
