/* psgd__fit_run with every allocation failing in turn: a sentence, no leak, no file, no folder. */
#include "support.h"

#include "data/format/npy.h"
#include "train/fit.h"

#include <dirent.h>
#include <unistd.h>

enum { PAIRS = 5 };

static const int64_t shape[2] = {3, 4};

static void write_array(const char *path, uint64_t seed)
{
    file_writer file;
    double pairs[PAIRS * 12];
    for (int i = 0; i < PAIRS * 12; i++) pairs[i] = random_normal(&seed);
    assert_ok(psgd__file_create(NULL, path, &file));
    assert_ok(psgd__npy_write_header(&file, PSGD_F64, 3, (int64_t[]){PAIRS, 3, 4}));
    assert_ok(psgd__file_write(&file, pairs, sizeof pairs));
    assert_ok(psgd__file_publish(&file));
}

static int files_in(const char *folder)
{
    DIR *open = opendir(folder);
    int count = 0;
    assert_non_null(open);
    while (readdir(open)) count++;
    closedir(open);
    return count - 2; /* . and .. */
}

static int enter_folder(void **state)
{
    static char folder[] = "/tmp/psgd-fit-XXXXXX";
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    static const char *const left[] = {"V.npy", "H.npy", "out/deep/PG.npy", "out/deep/Q1.npy", "out/deep/Q2.npy", "r"};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) unlink(left[i]);
    rmdir("out/deep");
    rmdir("out");
    return chdir("/") || rmdir(*state);
}

static void every_allocation_fails_in_turn(void **state)
{
    (void)state;
    counting count = {.fail_at = -1};
    psgd_allocator allocator = {counting_allocate, counting_release, &count};
    psgd_context *context;
    assert_ok(psgd_context_create(&allocator, &context));
    write_array("V.npy", 1);
    write_array("H.npy", 2);
    int64_t outstanding = count.outstanding;

    for (int64_t n = 0;; n++) {
        fit_job job = {.group = "kron(t(block(diag:1,tri)),sum(bnorm:2,dense))",
                       .ndim = 2,
                       .shape = shape,
                       .v = "V.npy",
                       .h = "H.npy",
                       .apply = "H.npy",
                       .out = "out/deep",
                       .report = "r"};
        text summary = {.context = context};
        count.made = 0;
        count.fail_at = n;
        psgd_status status = psgd__fit_run(context, &job, &summary);
        count.fail_at = -1;
        bool whole = !summary.failed;
        psgd__text_free(&summary);
        assert_int_equal(count.outstanding, outstanding);
        if (status == PSGD_OK && whole) {
            assert_true(n > 30);
            break;
        }
        if (status == PSGD_OK) continue; /* only the summary was out of memory */
        assert_int_equal(status, PSGD_ERR_NO_MEMORY);
        assert_true(strstr(psgd_last_error(), "memory") != NULL);
        assert_int_equal(files_in("."), 2);
    }
    assert_int_equal(files_in("."), 4);
    assert_int_equal(files_in("out/deep"), 3);
    psgd_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation_fails_in_turn, enter_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
