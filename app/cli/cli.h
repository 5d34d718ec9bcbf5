/* The psgd command: verbs, their flags, and how they end.
 *
 * A verb is one file with one cli_verb in it, its name at the end of this file, and one line in main.c. Where it fails
 * main prints the sentence of psgd_last_error on stderr; the exit status is 2 for a wrong spec or argument, else 1. */
#ifndef PSGD_CLI_CLI_H
#define PSGD_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/ranks.h"
#include "core/options.h"
#include <psgd/psgd.h>

enum { CLI_MAX_FLAGS = 96, CLI_MAX_POSITIONAL = 64, CLI_MAX_SOURCES = 3, CLI_MAX_ENTRY = 24 };

typedef struct cli_flag {
    const char *name;  /* without the dashes; "": help is the heading of the flags that follow */
    const char *value; /* what stands for its value in the help, "FILE"; NULL: a switch without a value */
    const char *help;
} cli_flag;

typedef struct cli_args {
    const char *positional[CLI_MAX_POSITIONAL];
    int positional_count;
    const char *name[CLI_MAX_FLAGS], *value[CLI_MAX_FLAGS];
    int flag_count;
    int *code; /* the status to exit with where the verb does not fail: EXIT_SUCCESS unless it says otherwise */
} cli_args;

typedef struct cli_verb {
    const char *name, *usage, *summary; /* "fit", "psgd fit --group SPEC ...", one line */
    const cli_flag *flags;              /* ends with a NULL name */
    /* Further flags, passed on to the library; of two with one name the first counts. Ends with NULL. */
    option_source *options[CLI_MAX_SOURCES + 1];
    const char *sections[CLI_MAX_SOURCES]; /* OPTIONAL: the heading of each source in --help and the manual */
    const char *schedule;                  /* OPTIONAL: the default of --lr-schedule, where the verb has its own */
    const char *more;                      /* text after the flags in --help; may be NULL */
    const char *example;                   /* commands, a line each, that the tests run as they are; may be NULL */
    const struct cli_verb *const *topics;  /* OPTIONAL: what its first word may be, each with flags and help of its own,
                                              named "paper rosenbrock" and so on; ends with NULL */
    bool ranks;                            /* may run on several ranks, under mpirun */
    psgd_status (*run)(const cli_args *args);
} cli_verb;

/* The value of a flag, "" for a switch that is there, NULL where it is not. The last one given counts. */
const char *cli_value(const cli_args *args, const char *name);

#define cli_wrong_use(...) psgd__fail(PSGD_ERR_ARGUMENT, __VA_ARGS__)

/* The value of a flag; nothing is changed where it is not given. */
psgd_status cli_dtype(const cli_args *args, psgd_dtype *dtype); /* --dtype */
psgd_status cli_number(const cli_args *args, const char *flag, double *number);
psgd_status cli_count(const cli_args *args, const char *flag, int64_t *count);

/* "4096x4097" into dimensions. */
psgd_status cli_shape(const char *word, int *ndim, int64_t shape[32]);

/* The options that a verb shows, from all its sources, from 0; false past the last. section (may be NULL) is the
 * heading of its source, or NULL. */
bool cli_option_at(const cli_verb *verb, int index, psgd_option_info *option, const char **section);

/* Sets those flags that are options of this source. */
psgd_status cli_options(option_source *source, const cli_args *args, psgd_options *options);

/* An entry of a list of methods, "psgd:group=kron(tri,tri):lr=0.1": the whole of it, the method and its options. */
typedef struct cli_entry {
    char label[128];
    const char *method;
    const char *name[CLI_MAX_ENTRY], *value[CLI_MAX_ENTRY];
    int count;
} cli_entry;

/* The next entry of *rest, a list with commas between them, which is cut up; method is NULL past the last. flag is what
 * messages name. */
psgd_status cli_entry_next(const char *flag, char **rest, cli_entry *entry);

/* The options of all optimizers, without the defaults that depend on the method. */
int cli_optimizer_option(int index, psgd_option_info *option);

/* For a verb that has them: a line for each method with the options whose default is its own. */
void cli_method_defaults(const cli_verb *verb, text *to);

/* --help on stdout. Defaults are those of the method that args name (--optimizer, --method), if they do. */
void cli_print_help(const cli_verb *verb, const cli_args *args);

/* Reads the words after the verb and runs it. */
psgd_status cli_run(const cli_verb *verb, int argc, char **argv, int *code);

/* The manual page psgd(1) on stdout, from the tables that --help shows. */
void cli_print_man(const cli_verb *const *verbs, int count);

/* A context with the groups of the shared objects of every --load in it. */
psgd_status cli_context(const cli_args *args, psgd_context **context);

/* psgd group --plan: a group for each of --shapes within --budget and --time. */
psgd_status cli_plan(const cli_args *args, const psgd_context *context);

/* An image of Q of a spec, one panel for each factor, before them Q itself where that is small. files (may be NULL)
 * names .npy files with the factors, separated by commas, as psgd fit writes them: then the values are drawn, else the
 * pattern of what may be non-zero. */
psgd_status cli_draw(const psgd_context *context, const char *spec, int ndim, const int64_t *shape, const char *files,
                     const char *path);

/* A PNG of width x height pixels, each an index into the palette of 256 colours (red, green, blue). */
psgd_status cli_png_write(const char *path, int width, int height, const uint8_t *pixels, const uint8_t (*palette)[3]);

/* A run in front of a person: a progress bar, a line an epoch on this stream. Trains to the end, or to an interrupt:
 * the step is finished, the run saved, *stopped. */
struct trainer;
psgd_status cli_run_trainer(struct trainer *self, FILE *lines, bool *stopped);

/* As psgd__trainer_evaluate, with a bar. */
struct train_score;
psgd_status cli_evaluate(struct trainer *self, struct train_score *valid, struct train_score *test);

/* The report page of all runs in a folder, as folder/report.html. */
psgd_status cli_write_report(const char *folder);

/* Images that could not be read, where there are any. */
void cli_report_reading(const struct trainer *self, FILE *lines);

/* The experiments of psgd paper that train a model. */
struct paper_experiment;
psgd_status cli_paper_runs(const cli_args *args, const struct paper_experiment *experiment);

extern const cli_verb verb_group, verb_fit, verb_minimize, verb_paper, verb_train, verb_resume, verb_eval, verb_demo,
    verb_report, verb_generate, verb_bench, verb_compare;

#endif
