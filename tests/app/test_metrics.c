/* The metrics log: what is written is read, a resumed log is cut back to its step, a killed writer loses one line. */
#include "support.h"

#include <unistd.h>

#include "report/metrics.h"

static char folder[] = "metrics-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, METRICS_FILE);
    unlink(path);
    return rmdir(folder);
}

static const metrics_setting settings[] = {{"group", "kron(diag,norm)"}, {"note", "a \"quoted\"\tword\\"}};
static const metrics_header header = {.run = "newton",
                                      .method = "psgd-newton",
                                      .task = "toy",
                                      .seed = UINT64_MAX,
                                      .settings = settings,
                                      .setting_count = 2};

/* Points at steps 1 to 3 for train, and health and valid at step 2. */
static void write_run(void)
{
    metrics_log *log;
    assert_ok(psgd__metrics_create(NULL, folder, &header, &log));
    for (int64_t step = 1; step <= 3; step++) {
        metrics_time when = {step, 0.5 * (double)step, 0.25 * (double)step};
        assert_ok(psgd__metrics_point(log, when, "train", (metric[]){{"loss", 1.0 / (double)step}}, 1));
        if (step != 2) continue;
        assert_ok(psgd__metrics_point(log, when, "valid", (metric[]){{"loss", 7}, {"perplexity", NAN}}, 2));
        assert_ok(psgd__metrics_health(log, when, "W", "scan", (metric[]){{"condition", 1e30}}, 1));
    }
    assert_ok(psgd__metrics_final(log, (metrics_time){3, 1.5, 0.75}, (metric[]){{"test_loss", -1e-300}}, 1));
    psgd__metrics_close(log);
}

static void append(const char *chars)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, METRICS_FILE);
    FILE *file = fopen(path, "a");
    fputs(chars, file);
    fclose(file);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    metrics_run *run;
    write_run();
    assert_ok(psgd__metrics_read(NULL, folder, &run));
    assert_string_equal(run->run, "newton");
    assert_string_equal(run->method, "psgd-newton");
    assert_string_equal(run->task, "toy");
    assert_true(run->seed == UINT64_MAX);
    assert_int_equal(run->setting_count, 2);
    assert_string_equal(run->settings[1].value, settings[1].value);
    assert_int_equal(run->curve_count, 4);

    const metrics_curve *loss = psgd__metrics_curve(run, "train loss");
    assert_int_equal(loss->count, 3);
    assert_int_equal(loss->when[2].step, 3);
    assert_true(loss->when[2].epoch == 1.5 && loss->when[2].seconds == 0.75);
    assert_true(fabs(loss->value[2] - 1.0 / 3) < 1e-9);
    assert_true(isnan(psgd__metrics_curve(run, "valid perplexity")->value[0]));
    assert_true(run->curves[3].value[0] == 1e30 && !strcmp(run->curves[3].tensor, "W"));
    assert_string_equal(run->curves[3].group, "scan");
    assert_true(run->finished && run->final_count == 1 && run->final[0].value == -1e-300);
    assert_null(psgd__metrics_curve(run, "test loss"));
    psgd__metrics_free(run);
}

static void an_unfinished_last_line_is_left_out(void **state)
{
    (void)state;
    metrics_run *run;
    write_run();
    append("{\"kind\":\"point\",\"step\":4,\"epo");
    assert_ok(psgd__metrics_read(NULL, folder, &run));
    assert_int_equal(psgd__metrics_curve(run, "train loss")->count, 3);
    psgd__metrics_free(run);
}

static void a_resumed_log_goes_on_after_its_step(void **state)
{
    (void)state;
    metrics_log *log;
    metrics_run *run;
    write_run();
    append("{\"kind\":\"po");
    assert_ok(psgd__metrics_resume(NULL, folder, 2, &log));
    assert_ok(psgd__metrics_point(log, (metrics_time){3, 1.5, 9}, "train", (metric[]){{"loss", 5}}, 1));
    psgd__metrics_close(log);
    assert_ok(psgd__metrics_read(NULL, folder, &run));
    const metrics_curve *loss = psgd__metrics_curve(run, "train loss");
    assert_int_equal(loss->count, 3);
    assert_true(loss->value[1] == 0.5 && loss->value[2] == 5 && loss->when[2].seconds == 9);
    assert_int_equal(psgd__metrics_curve(run, "valid loss")->count, 1);
    assert_false(run->finished);
    psgd__metrics_free(run);
}

static void a_header_is_replaced_and_the_rest_stays(void **state)
{
    (void)state;
    metrics_run *run;
    metrics_header other = header;
    other.settings = (metrics_setting[]){{"epochs", "4"}};
    other.setting_count = 1;
    write_run();
    assert_ok(psgd__metrics_replace_header(NULL, folder, &other));
    assert_ok(psgd__metrics_read(NULL, folder, &run));
    assert_int_equal(run->setting_count, 1);
    assert_string_equal(run->settings[0].value, "4");
    assert_int_equal(psgd__metrics_curve(run, "train loss")->count, 3);
    assert_true(run->finished);
    psgd__metrics_free(run);
}

static void bad_logs_get_a_sentence(void **state)
{
    (void)state;
    metrics_run *run = NULL;
    metrics_log *log = NULL;
    assert_fails(psgd__metrics_read(NULL, "no-such-folder", &run), PSGD_ERR_IO, "no-such-folder");
    assert_fails(psgd__metrics_read(NULL, ".", &run), PSGD_ERR_FORMAT, "not the folder of a run");
    assert_fails(psgd__metrics_resume(NULL, "no-such-folder", 1, &log), PSGD_ERR_IO, "no-such-folder");
    assert_fails(psgd__metrics_create(NULL, "no-such-folder/x", &header, &log), PSGD_ERR_IO, "cannot make");

    write_run();
    append("{\"kind\":\"point\",\"step\":4,\"split\":\"train\",\"loss\":1}\nnonsense\n");
    assert_fails(psgd__metrics_read(NULL, folder, &run), PSGD_ERR_FORMAT, "line 9: not a JSON object");
    write_run();
    append("{\"kind\":\"song\",\"step\":4}\n");
    assert_fails(psgd__metrics_read(NULL, folder, &run), PSGD_ERR_FORMAT, "'song'");
    write_run();
    append("{\"kind\":\"point\",\"step\":4,\"loss\":1}\n");
    assert_fails(psgd__metrics_read(NULL, folder, &run), PSGD_ERR_FORMAT, "needs a split");

    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, METRICS_FILE);
    assert_int_equal(truncate(path, 0), 0);
    assert_fails(psgd__metrics_read(NULL, path, &run), PSGD_ERR_FORMAT, "is empty");
    assert_fails(psgd__metrics_resume(NULL, folder, 1, &log), PSGD_ERR_FORMAT, "not a metrics log");
    assert_fails(psgd__metrics_replace_header(NULL, folder, &header), PSGD_ERR_FORMAT, "not a metrics log");
    append("{\"kind\":\"header\",\"version\":9,\"run\":\"a\",\"method\":\"b\"}\n");
    assert_fails(psgd__metrics_read(NULL, path, &run), PSGD_ERR_FORMAT, "version 9");
    assert_null(run);
    assert_null(log);
}

static void every_failed_allocation_is_an_error_without_a_leak(void **state)
{
    (void)state;
    write_run();
    for (int64_t at = 0;; at++) {
        counting count = {.fail_at = at};
        psgd_allocator allocator = {counting_allocate, counting_release, &count};
        psgd_context *context = NULL;
        if (psgd_context_create(&allocator, &context) != PSGD_OK) continue;
        int64_t before = count.outstanding;
        metrics_run *run = NULL;
        psgd_status status = psgd__metrics_read(context, folder, &run);
        psgd__metrics_free(run);
        assert_int_equal(count.outstanding, before);
        psgd_context_free(context);
        if (status == PSGD_OK) break;
        assert_int_equal(status, PSGD_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(an_unfinished_last_line_is_left_out),
        cmocka_unit_test(a_resumed_log_goes_on_after_its_step),
        cmocka_unit_test(a_header_is_replaced_and_the_rest_stays),
        cmocka_unit_test(bad_logs_get_a_sentence),
        cmocka_unit_test(every_failed_allocation_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
