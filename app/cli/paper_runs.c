/* psgd paper wikitext2 and imagenet: a run for each method, and a table of what came out. */
#include "cli/cli.h"

#include <string.h>

#include "core/file.h"
#include "paper/presets.h"
#include "report/metrics.h"
#include "report/report.h"

enum { MAX_METHODS = 32 };

/* The comma-separated list as methods. */
static psgd_status find_methods(const paper_experiment *experiment, const char *list, const paper_method **methods,
                                int *count)
{
    const char *names[MAX_METHODS];
    int known = 0;
    *count = 0;
    while (experiment->methods[known].name) names[known] = experiment->methods[known].name, known++;
    for (const char *at = list; *at;) {
        char word[64];
        size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        int i = 0;
        while (i < known && strcmp(names[i], word) != 0) i++;
        if (i == known || *count == MAX_METHODS) {
            return cli_wrong_use("there is no method '%s'%s; psgd paper %s --help lists them", word,
                                 psgd__suggest("", word, names, known).words, experiment->name);
        }
        methods[(*count)++] = &experiment->methods[i];
        at += length + (at[length] == ',');
    }
    return *count > 0 ? PSGD_OK : cli_wrong_use("--methods needs at least one method");
}

/* Row-sparse gradients, and how absent rows are fitted. */
static psgd_status read_rows(const cli_args *args, paper_choice *to)
{
    const char *rows = cli_value(args, "rows");
    if (!rows) return PSGD_OK;
    bool whole = !strcmp(rows, "whole");
    if (!cli_value(args, "untied")) {
        return cli_wrong_use("--rows %s is for --untied: the gradient of a tied matrix has all rows", rows);
    }
    if (!whole && strcmp(rows, "exact") != 0 && strcmp(rows, "lazy") != 0) {
        return cli_wrong_use("--rows is exact, lazy or whole, not %s", rows);
    }
    if (whole) to->given[to->given_count++] = (train_setting){"row-gradients", "no"};
    if (!whole) to->fit[to->fit_count++] = (train_setting){"rows", rows};
    return PSGD_OK;
}

/* Which of the two variants: by --size, or by whether there is a text. */
static psgd_status read_variant(const cli_args *args, const paper_experiment *experiment, paper_choice *to)
{
    const char *size = cli_value(args, "size"), *data = cli_value(args, "data");
    bool images = !strcmp(experiment->source, "images");
    to->variant = images ? size && !strcmp(size, "small") : !data;
    if (!images) return read_rows(args, to);
    if (!data) return cli_wrong_use("psgd paper imagenet needs --data DIR, the folder with train/ and val/");
    if (!size || !strcmp(size, "full") || !strcmp(size, "small")) return PSGD_OK;
    return cli_wrong_use("--size is full or small, not '%s'", size);
}

static const char *const fit[] = {"norm", "update-every", "update-anneal", "update-floor", "init", "init-scale", NULL};

static psgd_status read_choice(const cli_args *args, const paper_experiment *experiment, char source[4096],
                               paper_choice *to)
{
    const char *data = cli_value(args, "data"), *seed = cli_value(args, "seed");
    PSGD_TRY(read_variant(args, experiment, to));
    if (data) snprintf(source, 4096, "%s:%s", experiment->source, data);
    if (!data) snprintf(source, 4096, "markov:1000,8,200000,%s", seed ? seed : "1");
    to->given[to->given_count++] = (train_setting){"data", source};
    for (int i = 0; experiment->flags[i]; i++) {
        const char *value = cli_value(args, experiment->flags[i]);
        if (value) to->given[to->given_count++] = (train_setting){experiment->flags[i], *value ? value : "yes"};
    }
    if (cli_comm() && !cli_value(args, "micro-batches")) {
        to->given[to->given_count++] = (train_setting){"micro-batches", "8"};
    }
    for (int i = 0; fit[i]; i++) {
        const char *value = cli_value(args, fit[i]);
        if (value) to->fit[to->fit_count++] = (train_setting){fit[i], value};
    }
    return PSGD_OK;
}

static void print_titles(const paper_experiment *experiment, bool synthetic)
{
    printf("%-15s %8s %7s %9s %9s", "method", "steps", "epochs", "seconds", "ms/step");
    for (const paper_column *c = experiment->columns; c->title; c++) {
        if (synthetic || strcmp(c->metric, "test_gap") != 0) printf(" %*s", c->width, c->title);
    }
    putchar('\n');
}

static psgd_status print_line(const paper_experiment *experiment, const char *name, const char *folder)
{
    metrics_run *run;
    PSGD_TRY(psgd__metrics_read(NULL, folder, &run));
    printf("%-15s %8lld %7.2f %9.1f %9.1f", name, (long long)run->last.step, run->last.epoch, run->last.seconds,
           1e3 * run->last.seconds / (double)run->last.step);
    for (const paper_column *c = experiment->columns; c->title; c++) {
        for (int i = 0; i < run->final_count; i++) {
            if (strcmp(run->final[i].name, c->metric) != 0) continue;
            printf(" %*.*f", c->width, c->decimals, c->add + c->factor * run->final[i].value);
        }
    }
    putchar('\n');
    fflush(stdout);
    psgd__metrics_free(run);
    return PSGD_OK;
}

/* The run of one method to its end, or to an interrupt. */
static psgd_status run_method(const paper_experiment *experiment, const paper_choice *choice,
                              const paper_method *method, const char *out, bool first)
{
    char folder[4096];
    trainer *self = NULL;
    bool stopped = false;
    snprintf(folder, sizeof folder, "%s/%s", out, method->name);
    PSGD_TRY(psgd__paper_open(NULL, cli_comm(), experiment, choice, method, folder, &self));
    const char *note = psgd__trainer_state(self).note;
    if (first && *note) puts(note);
    if (first) print_titles(experiment, *note);
    fflush(stdout);
    bool first_rank = psgd_comm_rank(cli_comm()) == 0;
    if (first_rank) fprintf(stderr, "%s: needs about %.0f MB of memory\n", folder, psgd__trainer_memory(self) / 1e6);
    psgd_status status = cli_run_trainer(self, stderr, &stopped);
    psgd__trainer_free(self);
    PSGD_TRY(status);
    /* Not PSGD_ERR_ARGUMENT, which means wrong use: after an interrupt the command exits as psgd train does. */
    if (stopped) return psgd__fail(PSGD_ERR_CALLBACK, "stopped; the same command resumes %s", folder);
    return psgd_comm_agree(cli_comm(), first_rank ? print_line(experiment, method->name, folder) : PSGD_OK);
}

/* What the run of a method is, without running it. */
static psgd_status describe_method(const paper_experiment *experiment, const paper_choice *choice,
                                   const paper_method *method, const char *out, bool first)
{
    char folder[4096];
    trainer *self = NULL;
    text lines = {0};
    snprintf(folder, sizeof folder, "%s/%s", out, method->name);
    PSGD_TRY(psgd__paper_open(NULL, cli_comm(), experiment, choice, method, folder, &self));
    psgd_status status = psgd__trainer_describe(self, &lines);
    if (status == PSGD_OK) printf("%s%s\n%s", first ? "" : "\n", method->name, lines.chars);
    psgd__text_free(&lines);
    psgd__trainer_free(self);
    return status;
}

psgd_status cli_write_report(const char *out)
{
    report all = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/report.html", out);
    psgd_status status = psgd__report_add(&all, out);
    if (status == PSGD_OK) status = psgd__report_page(&all, path);
    if (status == PSGD_OK) printf("written: %s\n", path);
    psgd__report_free(&all);
    return status;
}

psgd_status cli_paper_runs(const cli_args *args, const paper_experiment *experiment)
{
    const paper_method *methods[MAX_METHODS];
    const char *list = cli_value(args, "methods"), *out = cli_value(args, "out");
    char source[4096];
    paper_choice choice = {0};
    int count, created = 0;
    PSGD_TRY(find_methods(experiment, list ? list : experiment->standard, methods, &count));
    PSGD_TRY(read_choice(args, experiment, source, &choice));
    bool synthetic = !strcmp(experiment->source, "text") && choice.variant;
    if (!out) out = synthetic ? "synthetic language" : experiment->name;
    if (cli_value(args, "dry-run")) {
        for (int i = 0; i < count; i++) PSGD_TRY(describe_method(experiment, &choice, methods[i], out, i == 0));
        return PSGD_OK;
    }
    bool first_rank = psgd_comm_rank(cli_comm()) == 0;
    psgd_status status = psgd_comm_agree(cli_comm(), first_rank ? psgd__folder_create(out, &created) : PSGD_OK);
    for (int i = 0; status == PSGD_OK && i < count; i++) {
        status = run_method(experiment, &choice, methods[i], out, i == 0);
    }
    if (status == PSGD_OK && experiment->report && first_rank) status = cli_write_report(out);
    if (status != PSGD_OK && first_rank) psgd__folder_remove(out, created); /* where it is still empty */
    return status;
}
