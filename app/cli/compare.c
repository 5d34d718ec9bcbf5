/* psgd compare: several optimizers, learning rates and seeds on one model; one table, one report. */
#include "cli/cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/memory.h"
#include "report/comparison.h"
#include "train/compare.h"
#include "train/settings.h"

enum { MAX_METHODS = 32 };

typedef struct method {
    cli_entry entry;
    bool takes_grid;
} method;

typedef struct plan {
    const cli_args *args;
    const char *out;
    char *optimizers, *rates; /* the lists, cut up */
    compare_list shared;
    method methods[MAX_METHODS];
    const char *rate[COMPARISON_MAX_RATES];
    int method_count, rate_count;
    int64_t seed, seeds;
    comparison_row *rows;
    int row_count;
    bool stopped, noted; /* noted: the note about the data has been printed */
} plan;

/* What is compared is the same for all, and a run's folder and seed are the comparison's. */
static psgd_status check_entry(const cli_entry *entry)
{
    static const char *const common[] = {"model", "data", "optimizer", "seed", "out", "name"};
    for (int i = 0; i < entry->count; i++) {
        for (size_t k = 0; k < sizeof common / sizeof common[0]; k++) {
            if (strcmp(entry->name[i], common[k]) != 0) continue;
            return cli_wrong_use("'%s': %s cannot differ between the optimizers of a comparison", entry->label,
                                 common[k]);
        }
    }
    return PSGD_OK;
}

static psgd_status read_methods(plan *p)
{
    const char *list = cli_value(p->args, "optimizers");
    p->optimizers = psgd__strdup(NULL, list ? list : "psgd-newton,psgd-fisher,adam,momentum");
    if (!p->optimizers) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of optimizers");
    for (char *rest = p->optimizers; *rest;) {
        if (p->method_count == MAX_METHODS) return cli_wrong_use("more than %d optimizers", MAX_METHODS);
        method *to = &p->methods[p->method_count++];
        PSGD_TRY(cli_entry_next("optimizers", &rest, &to->entry));
        PSGD_TRY(check_entry(&to->entry));
        to->takes_grid = true;
        for (int i = 0; i < to->entry.count; i++) {
            if (!strcmp(to->entry.name[i], "lr")) to->takes_grid = false;
        }
        for (method *other = p->methods; other < to; other++) {
            if (strcmp(other->entry.label, to->entry.label) != 0) continue;
            return cli_wrong_use("'%s' is twice in --optimizers; give one of them other options", to->entry.label);
        }
    }
    return p->method_count ? PSGD_OK : cli_wrong_use("--optimizers needs at least one optimizer");
}

static psgd_status read_rates(plan *p)
{
    const char *list = cli_value(p->args, "lr");
    if (!list) return PSGD_OK;
    p->rates = psgd__strdup(NULL, list);
    if (!p->rates) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of learning rates");
    char *state = NULL;
    for (char *word = strtok_r(p->rates, ",", &state); word; word = strtok_r(NULL, ",", &state)) {
        double value;
        if (p->rate_count == COMPARISON_MAX_RATES) return cli_wrong_use("more than %d learning rates", p->rate_count);
        if (strlen(word) > 20 || !psgd__parse_number(word, &value) || !(value > 0)) {
            return cli_wrong_use("--lr is a list of numbers above 0 with commas between them; '%.40s' is not one",
                                 word);
        }
        p->rate[p->rate_count++] = word;
    }
    return p->rate_count ? PSGD_OK : cli_wrong_use("--lr needs at least one learning rate");
}

/* The settings of every run: all flags but those of this verb. */
static psgd_status read_shared(plan *p)
{
    static const char *const own[] = {"optimizers", "lr", "seeds", "seed", "out"};
    const cli_args *args = p->args;
    PSGD_TRY(psgd__compare_set(&p->shared, "model", args->positional[0]));
    for (int i = 0; i < args->flag_count; i++) {
        bool is_own = false;
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) is_own = is_own || !strcmp(args->name[i], own[k]);
        if (!is_own) PSGD_TRY(psgd__compare_set(&p->shared, args->name[i], args->value[i]));
    }
    return PSGD_OK;
}

static psgd_status read_plan(plan *p)
{
    const cli_args *args = p->args;
    if (args->positional_count != 1) return cli_wrong_use("psgd compare needs one MODEL; psgd train --help lists them");
    if (!cli_value(args, "data")) return cli_wrong_use("psgd compare needs --data, as in --data digits");
    PSGD_TRY(cli_count(args, "seed", &p->seed));
    PSGD_TRY(cli_count(args, "seeds", &p->seeds));
    if (p->seeds < 1 || p->seeds > COMPARISON_MAX_SEEDS) {
        return cli_wrong_use("--seeds is from 1 to %d", COMPARISON_MAX_SEEDS);
    }
    PSGD_TRY(read_methods(p));
    PSGD_TRY(read_rates(p));
    return read_shared(p);
}

/* "psgd:group=kron(tri,tri)", 0.1 and 0 are the folder psgd-group-kron-tri-tri-lr0.1-seed0, and by name the run of the
 * report. */
static void name_run(const method *m, const char *rate, comparison_run *run, char name[256])
{
    bool grid = rate != NULL;
    snprintf(run->rate, sizeof run->rate, "%s", grid ? rate : "default");
    for (int i = 0; !grid && i < m->entry.count; i++) {
        if (!strcmp(m->entry.name[i], "lr")) snprintf(run->rate, sizeof run->rate, "%s", m->entry.value[i]);
    }
    snprintf(name, 256, "%s%s%s, seed %" PRIu64, m->entry.label, grid ? ", lr " : "", grid ? rate : "", run->seed);
    snprintf(run->folder, sizeof run->folder, "%s%s%s-seed%" PRIu64, m->entry.label, grid ? "-lr" : "",
             grid ? rate : "", run->seed);
    for (char *at = run->folder; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr(".-_+", *at)) *at = '-';
    }
}

static bool is_replaced(const train_setting *shared, const cli_entry *entry)
{
    for (int i = 0; i < entry->count; i++) {
        train_setting own = {entry->name[i], entry->value[i]};
        if (psgd__setting_is_replaced(shared, 1, &own)) return true;
    }
    return false;
}

/* The settings of the run: those of the entry take precedence over those that all share. lr=default leaves lr to the
 * method. */
static psgd_status set_run(const plan *p, const method *m, const char *rate, const char *seed, const char *folder,
                           const char *name, compare_list *to)
{
    to->count = 0;
    for (int i = 0; i < p->shared.count; i++) {
        if (!is_replaced(&p->shared.list[i], &m->entry)) to->list[to->count++] = p->shared.list[i];
    }
    PSGD_TRY(psgd__compare_set(to, "optimizer", m->entry.method));
    for (int i = 0; i < m->entry.count; i++) {
        bool leave = !strcmp(m->entry.name[i], "lr") && !strcmp(m->entry.value[i], "default");
        if (!leave) PSGD_TRY(psgd__compare_set(to, m->entry.name[i], m->entry.value[i]));
    }
    if (rate) PSGD_TRY(psgd__compare_set(to, "lr", rate));
    PSGD_TRY(psgd__compare_set(to, "seed", seed));
    PSGD_TRY(psgd__compare_set(to, "out", folder));
    return psgd__compare_set(to, "name", name);
}

static psgd_status train(plan *p, const method *m, const compare_list *settings, const char *folder)
{
    trainer *self = NULL;
    psgd_status status = psgd__compare_open(NULL, settings, folder, &self);
    if (status != PSGD_OK) return psgd__fail_in(status, "%s", m->entry.label);
    if (!self) return PSGD_OK;
    const char *note = psgd__trainer_state(self).note;
    if (*note && !p->noted) fprintf(stderr, "%s\n", note);
    p->noted = true;
    status = cli_run_trainer(self, stderr, &p->stopped);
    psgd__trainer_free(self);
    if (status != PSGD_ERR_NOT_FINITE) return status;
    fprintf(stderr, "%s: %s\n", folder, psgd_last_error()); /* the table says so too */
    return PSGD_OK;
}

static psgd_status do_run(plan *p, const method *m, const char *rate, int64_t seed, comparison_run *run)
{
    char name[256], folder[4096], digits[32];
    compare_list settings;
    metrics_run *log;
    *run = (comparison_run){.seed = (uint64_t)seed};
    name_run(m, rate, run, name);
    snprintf(folder, sizeof folder, "%s/%s", p->out, run->folder);
    snprintf(digits, sizeof digits, "%lld", (long long)seed);
    PSGD_TRY(set_run(p, m, rate, digits, folder, name, &settings));
    fprintf(stderr, "%s\n", name);
    PSGD_TRY(train(p, m, &settings, folder));
    if (p->stopped) return PSGD_OK;
    PSGD_TRY(psgd__metrics_read(NULL, folder, &log));
    run->result = psgd__metrics_summary(log);
    for (int i = 0; i < log->default_count; i++) { /* the method's own */
        bool found = !strcmp(log->defaults[i].name, "lr");
        if (found) snprintf(run->rate, sizeof run->rate, "%s", log->defaults[i].value);
    }
    psgd__metrics_free(log);
    return PSGD_OK;
}

/* Every rate of the grid on the first seed, the best of them on the others. */
static psgd_status compare_one(plan *p, const method *m, comparison_row *row)
{
    const char *rate = m->takes_grid && p->rate_count == 1 ? p->rate[0] : NULL;
    row->label = m->entry.label;
    if (m->takes_grid && p->rate_count > 1) {
        for (int i = 0; i < p->rate_count && !p->stopped; i++) {
            PSGD_TRY(do_run(p, m, p->rate[i], p->seed, &row->trials[i]));
            row->trial_count += !p->stopped;
        }
        if (p->stopped) return PSGD_OK;
        int best = psgd__comparison_best(row);
        row->runs[row->run_count++] = row->trials[best < 0 ? 0 : best];
        if (best < 0) return PSGD_OK; /* all have diverged: no other seeds */
        rate = p->rate[best];
    }
    while (row->run_count < p->seeds && !p->stopped) {
        PSGD_TRY(do_run(p, m, rate, p->seed + row->run_count, &row->runs[row->run_count]));
        row->run_count += !p->stopped;
    }
    return PSGD_OK;
}

/* Every optimizer but the first, whose run starts at once: errors in any of them are reported before the first run. */
static psgd_status check_methods(const plan *p)
{
    for (int i = 1; i < p->method_count; i++) {
        const method *m = &p->methods[i];
        const char *rate = m->takes_grid && p->rate_count ? p->rate[0] : NULL;
        compare_list settings;
        trainer *self = NULL;
        PSGD_TRY(set_run(p, m, rate, "0", p->out, m->entry.label, &settings));
        psgd_status status = psgd__trainer_create(NULL, NULL, settings.count, settings.list, &self);
        psgd__trainer_free(self);
        if (status != PSGD_OK) return psgd__fail_in(status, "%s", m->entry.label);
    }
    return PSGD_OK;
}

static comparison comparison_of(const plan *p)
{
    return (comparison){.model = p->args->positional[0],
                        .data = cli_value(p->args, "data"),
                        .rows = p->rows,
                        .row_count = p->row_count};
}

static psgd_status show(const plan *p)
{
    comparison all = comparison_of(p);
    text table = {0};
    psgd__comparison_table(&all, &table);
    if (table.chars) fputs(table.chars, stdout);
    psgd__text_free(&table);
    PSGD_TRY(psgd__comparison_write(&all, p->out));
    printf("written: %s/%s\n", p->out, COMPARISON_FILE);
    return cli_write_report(p->out);
}

static psgd_status compare_all(plan *p)
{
    int created = 0;
    comparison all = comparison_of(p);
    PSGD_TRY(psgd__comparison_check(&all, p->out));
    PSGD_TRY(check_methods(p));
    p->rows = psgd__alloc(NULL, p->method_count, sizeof *p->rows);
    if (!p->rows) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the results of a comparison");
    psgd_status status = psgd__folder_create(p->out, &created);
    for (int i = 0; status == PSGD_OK && i < p->method_count && !p->stopped; i++) {
        status = compare_one(p, &p->methods[i], &p->rows[p->row_count]);
        p->row_count += !p->stopped;
    }
    if (status != PSGD_OK) {
        psgd__folder_remove(p->out, created); /* where it is still empty */
        return status;
    }
    if (p->stopped) {
        *p->args->code = EXIT_FAILURE;
        printf("stopped; the same command resumes the comparison in %s\n", p->out);
        return PSGD_OK;
    }
    return show(p);
}

static psgd_status run(const cli_args *args)
{
    char folder[256];
    plan p = {.args = args, .seeds = 1, .out = cli_value(args, "out")};
    snprintf(folder, sizeof folder, "compare-%s", args->positional_count ? args->positional[0] : "");
    if (!p.out) p.out = folder;
    psgd_status status = read_plan(&p);
    if (status == PSGD_OK) status = compare_all(&p);
    psgd__free(NULL, p.rows);
    psgd__free(NULL, p.optimizers);
    psgd__free(NULL, p.rates);
    return status;
}

/* Those of psgd train but for what a comparison sets itself. */
static int shared_option(int index, psgd_option_info *option)
{
    static const char *const own[] = {"optimizer", "name", "seed"};
    for (int i = 0; psgd__option_at(psgd__train_options, psgd__train_option_count, i, option); i++) {
        bool is_own = false;
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) is_own = is_own || !strcmp(option->name, own[k]);
        if (!is_own && index-- == 0) return 1;
    }
    return 0;
}

static int model_option(int index, psgd_option_info *option)
{
    return psgd__option_at(psgd__model_options, psgd__model_option_count, index, option);
}

static const cli_flag flags[] = {
    {"optimizers", "LIST", "with commas between them, see below [psgd-newton,psgd-fisher,adam,momentum]"},
    {"lr", "LIST", "learning rates to try for each optimizer that names none itself [the method's own]"},
    {"seeds", "N", "runs of each optimizer, with its best learning rate [1]"},
    {"seed", "N", "the first seed: of the start, the order, masks and v [0]"},
    {"out", "DIR", "folder of the comparison: a folder for each run, compare.json, report.html [compare-MODEL]"},
    {0},
};

const cli_verb verb_compare = {
    .name = "compare",
    .usage = "psgd compare MODEL --data SOURCE --optimizers LIST [--lr LIST] [--seeds N] [--out DIR] [options]",
    .summary = "Compare optimizers on one model: a table and a report",
    .flags = flags,
    .options = {shared_option, model_option, cli_optimizer_option},
    .sections = {"Training and data, for all runs", "The model", "The optimizers, for all that take them"},
    .schedule = "cosine",
    .more =
        "An optimizer is psgd-newton, psgd-fisher or a method of psgd minimize, with options of its own behind it\n"
        "as in psgd-newton:group=kron(tri,tri):lr=0.1; options given as flags are for all of them.\n\n"
        "Each learning rate of --lr is tried on the first seed; the one with the lowest training loss over the last\n"
        "twentieth of the steps, or with --validation the lowest validation error (loss, where there are no\n"
        "classes), is run on the other seeds. An optimizer with an lr of its own, lr=default included, is run as it\n"
        "is. The table has medians over seeds, and says which runs diverged. Models and sources are those of psgd\n"
        "train. A comparison that was stopped is resumed by the same command; finished runs are not repeated.\n",
    .example =
        "  psgd compare mlp --data digits --samples 1000 --epochs 2 --optimizers psgd-newton:lr=default,adam --lr "
        "0.001,0.01 --out comparison\n",
    .run = run,
};
