/* psgd paper wikitext2: the paper's language model on a text of one's own, or on a synthetic language. */
#include "cli/paper.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"
#include "train/language.h"
#include "report/progress.h"

enum { MAX_METHODS = 32 };

/* The comma-separated list as methods; false with the sentence printed. */
static bool find_methods(const char *list, const language_method **methods, int *count)
{
    const char *names[MAX_METHODS];
    int known = 0;
    while (known < MAX_METHODS && psgd__language_method(known)) {
        names[known] = psgd__language_method(known)->name;
        known++;
    }
    int picked[MAX_METHODS];
    if (!cli_paper_methods(list, names, known, MAX_METHODS, picked, count)) return false;
    for (int i = 0; i < *count; i++) methods[i] = psgd__language_method(picked[i]);
    return true;
}

static bool read_count(const cli_args *args, const char *flag, int64_t min, int64_t *to)
{
    const char *word = cli_value(args, flag);
    if (!word) return true;
    if (!cli_count(flag, word, to)) return false;
    if (*to >= min) return true;
    cli_wrong_use("--%s must be %lld or more, not %s", flag, (long long)min, word);
    return false;
}

static bool read_settings(const cli_args *args, bool synthetic, language_settings *to)
{
    const char *dropout = cli_value(args, "dropout"), *rows = cli_value(args, "rows");
    int64_t seed = 1;
    *to = (language_settings){.shape = {.hidden = synthetic ? 50 : 200,
                                        .layers = 2,
                                        .times = 35,
                                        .batch = 20,
                                        .dropout = synthetic ? 0 : 0.2,
                                        .untied = cli_value(args, "untied") != NULL},
                              .epochs = synthetic ? 2 : 1,
                              .checkpoint_every = 500,
                              .log_every = 20,
                              .range = 0.1,
                              .task = synthetic ? "synthetic language" : "wikitext2"};
    if (dropout && !cli_number("dropout", dropout, &to->shape.dropout)) return false;
    bool read = read_count(args, "hidden", 1, &to->shape.hidden) && read_count(args, "epochs", 1, &to->epochs) &&
                read_count(args, "steps", 0, &to->steps) && read_count(args, "batch", 1, &to->shape.batch) &&
                read_count(args, "back", 1, &to->shape.times) && read_count(args, "seed", 0, &seed) &&
                read_count(args, "checkpoint-every", 1, &to->checkpoint_every) &&
                read_count(args, "log-every", 1, &to->log_every);
    to->seed = (uint64_t)seed;
    to->whole = rows && !strcmp(rows, "whole");
    if (!read || !rows || (to->shape.untied && (to->whole || !strcmp(rows, "exact") || !strcmp(rows, "lazy"))))
        return read;
    cli_wrong_use(to->shape.untied ? "--rows is exact, lazy or whole, not %s"
                                   : "--rows %s is for --untied: the gradient of a tied matrix has all rows",
                  rows);
    return false;
}

typedef struct line {
    progress bar;
} line;

static void watch(void *data, int64_t done, int64_t total)
{
    psgd__progress_show(&((line *)data)->bar, done, total);
}

static psgd_status run_method(const corpus *source, const language_settings *settings, const language_method *method,
                              const metrics_setting *more, int more_count, const char *folder)
{
    text path = {0};
    int created;
    psgd__text_add(&path, "%s/%s", folder, method->name);
    if (path.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the run '%s'", method->name);
    line shown;
    language_result result = {0};
    fprintf(stderr, "%s\n", path.chars);
    psgd__progress_start(&shown.bar, stderr, "step");
    psgd_status status = psgd__folder_create(folder, &created);
    if (status == PSGD_OK)
        status = psgd__language_run(NULL, source, settings, method, more, more_count, path.chars, watch, &shown,
                                    &result);
    psgd__progress_end(&shown.bar);
    psgd__text_free(&path);
    PSGD_TRY(status);
    printf("%-16s %8lld %7.2f %9.1f %9.1f %12.2f %12.2f", method->name, (long long)result.steps, result.epochs,
           result.seconds, 1e3 * result.seconds / (double)result.steps, exp(result.valid_loss), exp(result.test_loss));
    if (!isnan(source->entropy)) printf(" %10.4f", result.test_loss - source->entropy);
    putchar('\n');
    fflush(stdout);
    return PSGD_OK;
}

static psgd_status run_all(const cli_args *args, const corpus *source, const language_settings *settings,
                           const language_method *const *methods, int count)
{
    static const char *const names[] = {"update-every", "init", "init-scale", "rows"};
    const char *out = cli_value(args, "out");
    metrics_setting more[4];
    int given = 0;
    for (int i = 0; i < (settings->whole ? 3 : 4); i++) {
        if (cli_value(args, names[i])) more[given++] = (metrics_setting){names[i], cli_value(args, names[i])};
    }
    fprintf(stderr, "a run needs about %.0f MB of memory\n", psgd__language_run_bytes(&settings->shape) / 1e6);
    printf("%-16s %8s %7s %9s %9s %12s %12s%s\n", "method", "steps", "epochs", "seconds", "ms/step", "valid ppl",
           "test ppl", isnan(source->entropy) ? "" : "   test gap");
    for (int i = 0; i < count; i++) {
        bool fits = !strcmp(methods[i]->method, "psgd");
        PSGD_TRY(run_method(source, settings, methods[i], more, fits ? given : 0, out ? out : settings->task));
    }
    return PSGD_OK;
}

int cli_paper_wikitext2(const cli_args *args)
{
    const char *data = cli_value(args, "data"), *list = cli_value(args, "methods");
    const language_method *methods[MAX_METHODS];
    int count;
    language_settings settings;
    corpus source;
    if (!find_methods(list ? list : "sgd,fisher-scan,newton-scan-10,newton-scaw-10", methods, &count))
        return EXIT_WRONG_USE;
    if (!read_settings(args, !data, &settings)) return EXIT_WRONG_USE;
    psgd_status status = data ? psgd__corpus_read(NULL, data, &source)
                              : psgd__corpus_markov(NULL, 1000, 8, 200000, settings.seed, &source);
    if (status != PSGD_OK) return cli_status(status);
    settings.shape.words = source.words.count;
    if (!isnan(source.entropy))
        printf("a Markov language of %lld words; its entropy is %.4f nats, a perplexity of %.2f\n",
               (long long)source.words.count, source.entropy, exp(source.entropy));
    status = run_all(args, &source, &settings, methods, count);
    psgd__corpus_free(&source);
    return cli_status(status);
}
