/* The psgd command: verbs, their flags, and how they end.
 *
 * A verb is one file with one cli_verb in it and one line in main.c. Errors are one sentence on stderr; the exit status
 * is 2 for wrong use and 1 for a failure. */
#ifndef PSGD_CLI_CLI_H
#define PSGD_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "core/options.h"
#include <psgd/psgd.h>

enum { EXIT_WRONG_USE = 2, CLI_MAX_FLAGS = 96, CLI_MAX_POSITIONAL = 64 };

typedef struct cli_flag {
    const char *name;  /* without the dashes */
    const char *value; /* what stands for its value in the help, "FILE"; NULL: a switch without a value */
    const char *help;
} cli_flag;

typedef struct cli_args {
    const char *positional[CLI_MAX_POSITIONAL];
    int positional_count;
    const char *name[CLI_MAX_FLAGS], *value[CLI_MAX_FLAGS];
    int flag_count;
} cli_args;

enum { CLI_MAX_SOURCES = 4 };

typedef struct cli_verb {
    const char *name, *usage, *summary;      /* "fit", "psgd fit --group SPEC ...", one line */
    const cli_flag *flags;                   /* ends with a NULL name */
    option_source *options[CLI_MAX_SOURCES]; /* further flags, passed on to the library; of two with one name the
                                                first counts */
    const char *more;                        /* text after the flags in --help; may be NULL */
    int (*run)(const cli_args *args);
} cli_verb;

/* The value of a flag, "" for a switch that is there, NULL where it is not. The last one given counts. */
const char *cli_value(const cli_args *args, const char *name);

/* One sentence on stderr; returns the status to exit with. */
int cli_wrong_use(const char *format, ...) PSGD_PRINTF(1, 2);
int cli_failure(const char *format, ...) PSGD_PRINTF(1, 2);
int cli_status(psgd_status status); /* psgd_last_error() as the sentence: 2 for a wrong spec or argument, else 1 */

/* "4096x4097" into modes; false, with the sentence printed, where that is not a shape. */
bool cli_shape(const char *word, int *ndim, int64_t shape[32]);
bool cli_dtype(const char *word, psgd_dtype *dtype);
bool cli_number(const char *flag, const char *word, double *number);
bool cli_count(const char *flag, const char *word, int64_t *count);

/* The options that a verb shows, from all its sources, from 0; false past the last. */
bool cli_option_at(const cli_verb *verb, int index, psgd_option_info *option);

/* The flags that are options of the verb as an option list for the library. */
psgd_status cli_options(const cli_verb *verb, const cli_args *args, psgd_options **options);

/* Sets those flags that are options of this source. */
psgd_status cli_options_of(option_source *source, const cli_args *args, psgd_options *options);

/* The options of all optimizers, without the defaults that depend on the method. */
int cli_optimizer_option(int index, psgd_option_info *option);

#endif
