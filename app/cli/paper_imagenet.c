/* psgd paper imagenet: AlexNet on pictures in class folders, a run for each method. */
#include "cli/paper.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"
#include "paper/imagenet.h"
#include "report/progress.h"
#include "report/report.h"

enum { MAX_METHODS = 32 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* The comma-separated list as methods; false with the sentence printed. */
static bool find_methods(const char *list, const imagenet_method **methods, int *count)
{
    const char *names[MAX_METHODS];
    int known = 0;
    for (; known < MAX_METHODS && psgd__imagenet_method(known); known++) {
        names[known] = psgd__imagenet_method(known)->name;
    }
    *count = 0;
    for (int i = 0; !list && i < known; i++) {
        if (psgd__imagenet_default(i)) methods[(*count)++] = psgd__imagenet_method(i);
    }
    int picked[MAX_METHODS];
    if (!list) return true;
    if (!cli_paper_methods(list, names, known, MAX_METHODS, picked, count)) return false;
    for (int i = 0; i < *count; i++) methods[i] = psgd__imagenet_method(picked[i]);
    return true;
}

static bool read_settings(const cli_args *args, imagenet_settings *to)
{
    static const char *const more[] = {"steps", "batch", "dropout",       "seed", "log-every", "checkpoint-every",
                                       "cache", "truth", "decode-threads"};
    static const char *const switches[] = {"random-crop", "mirror"};
    static const char *const fit[] = {"update-every", "init", "init-scale"};
    const char *size = cli_value(args, "size"), *epochs = cli_value(args, "epochs");
    *to = (imagenet_settings){.data = cli_value(args, "data"), .epochs = 40};
    if (!to->data) {
        cli_wrong_use("psgd paper imagenet needs --data DIR, the folder with train/ and val/");
        return false;
    }
    if (size && strcmp(size, "full") != 0 && strcmp(size, "small") != 0) {
        cli_wrong_use("--size is full or small, not '%s'", size);
        return false;
    }
    to->small = size && !strcmp(size, "small");
    if (epochs && (!cli_count("epochs", epochs, &to->epochs) || to->epochs < 1)) {
        if (to->epochs < 1) cli_wrong_use("--epochs must be 1 or more, not %s", epochs);
        return false;
    }
    to->more[to->more_count++] = (train_setting){"seed", "1"};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        const char *value = cli_value(args, more[i]);
        if (value) to->more[to->more_count++] = (train_setting){more[i], value};
    }
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        if (cli_value(args, switches[i])) to->more[to->more_count++] = (train_setting){switches[i], "yes"};
    }
    for (size_t i = 0; i < sizeof fit / sizeof fit[0]; i++) {
        const char *value = cli_value(args, fit[i]);
        if (value) to->fit[to->fit_count++] = (train_setting){fit[i], value};
    }
    return true;
}

static void show_step(void *data, int64_t done, int64_t total, double loss)
{
    psgd__progress_note(data, "loss %.4f", loss);
    psgd__progress_show(data, done, total);
}

static void show_epoch(void *data, int64_t epoch, double train_loss, double test_loss, double error, double seconds)
{
    psgd__progress_end(data);
    fprintf(stderr, "  epoch %lld: training loss %.4f, test loss %.4f, error %.2f %%, %.0f s\n", (long long)epoch,
            train_loss, test_loss, 100 * error, seconds);
}

static double final_of(const metrics_run *run, const char *name)
{
    for (int i = 0; i < run->final_count; i++) {
        if (!strcmp(run->final[i].name, name)) return run->final[i].value;
    }
    return NAN;
}

static psgd_status print_line(const char *name, const char *folder)
{
    metrics_run *run;
    PSGD_TRY(psgd__metrics_read(NULL, folder, &run));
    double loss = final_of(run, "test_loss"), error = final_of(run, "test_error");
    double top5 = final_of(run, "test_top5_error"), waited = final_of(run, "waited_seconds");
    printf("%-15s %7lld %7.2f %9.1f %9.1f %10.4f %8.2f %8.2f %9.1f\n", name, (long long)run->last.step, run->last.epoch,
           run->last.seconds, 1e3 * run->last.seconds / (double)run->last.step, loss, 100 * (1 - error),
           100 * (1 - top5), waited);
    fflush(stdout);
    psgd__metrics_free(run);
    return PSGD_OK;
}

/* The run of one method to its end, or to an interrupt. */
static psgd_status run_method(const imagenet_settings *settings, const imagenet_method *method, const char *out)
{
    char folder[4096];
    trainer *self = NULL;
    progress bar;
    bool stopped = false;
    snprintf(folder, sizeof folder, "%s/%s", out, method->name);
    PSGD_TRY(psgd__imagenet_open(NULL, settings, method, folder, &self));
    fprintf(stderr, "%s: needs about %.0f MB of memory\n", folder, psgd__trainer_need(self) / 1e6);
    psgd__progress_start(&bar, stderr, "step");
    train_watch watch = {.step = show_step, .epoch = show_epoch, .data = &bar, .stop = &interrupted};
    psgd_status status = psgd__trainer_run(self, &watch, &stopped);
    psgd__progress_end(&bar);
    train_reading reading = psgd__trainer_reading(self);
    if (status == PSGD_OK && reading.passed_over > 0) {
        fprintf(stderr, "%lld pictures could not be read and were passed over; the first: %s\n",
                (long long)reading.passed_over, reading.first_bad);
    }
    psgd__trainer_free(self);
    PSGD_TRY(status);
    if (stopped) return psgd__fail(PSGD_ERR_ARGUMENT, "stopped; the same command goes on with %s", folder);
    return print_line(method->name, folder);
}

static psgd_status write_report(const char *out)
{
    report all = {0};
    text path = {0};
    psgd__text_add(&path, "%s/report.html", out);
    psgd_status status = path.failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the report")
                                     : psgd__report_add(&all, out);
    if (status == PSGD_OK) status = psgd__report_page(&all, path.chars);
    if (status == PSGD_OK) printf("written: %s\n", path.chars);
    psgd__report_free(&all);
    psgd__text_free(&path);
    return status;
}

int cli_paper_imagenet(const cli_args *args)
{
    const imagenet_method *methods[MAX_METHODS];
    imagenet_settings settings;
    int count, created = 0;
    const char *out = cli_value(args, "out") ? cli_value(args, "out") : "imagenet";
    if (!find_methods(cli_value(args, "methods"), methods, &count) || !read_settings(args, &settings)) {
        return EXIT_WRONG_USE;
    }
    struct sigaction catch = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &catch, NULL);
    sigaction(SIGTERM, &catch, NULL);
    psgd_status status = psgd__folder_create(out, &created);
    printf("%-15s %7s %7s %9s %9s %10s %8s %8s %9s\n", "method", "steps", "epochs", "seconds", "ms/step", "test loss",
           "top-1 %", "top-5 %", "waited s");
    for (int i = 0; status == PSGD_OK && i < count; i++) status = run_method(&settings, methods[i], out);
    if (status == PSGD_OK) status = write_report(out);
    int code = cli_status(status);
    if (status != PSGD_OK) psgd__folder_remove(out, created); /* where it is still empty */
    return code;
}
