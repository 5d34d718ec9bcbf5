/* Options: a list of name = value pairs, so that new options do not change the ABI.
 *
 * The call that takes the list checks names and values, and suggests the nearest name where one is unknown. Names and
 * values are copied; setting a name again replaces its value.
 *
 * Every call that takes options has a counterpart that describes them: psgd_precond_option, psgd_optimizer_option,
 * psgd_minimize_option and psgd_plan_option fill a psgd_option_info for the indices 0, 1, ... and return 1, or return 0
 * past the last option. Help texts, the manual page and the language bindings are made from these, so the names are the
 * same everywhere: lr-schedule is --lr-schedule on the command line and lr_schedule in Python.
 *
 *     psgd_option_info option;
 *     for (int i = 0; psgd_optimizer_option("psgd-fisher", i, &option); i++) {
 *         printf("%s = %s\n", option.name, option.default_value);
 *     }
 */
#ifndef PSGD_OPTIONS_H
#define PSGD_OPTIONS_H

#include <psgd/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct psgd_options psgd_options;

psgd_status psgd_options_create(const psgd_context *context, psgd_options **options);
void psgd_options_free(psgd_options *options);

psgd_status psgd_options_set(psgd_options *options, const char *name, const char *value);
psgd_status psgd_options_set_number(psgd_options *options, const char *name, double value);

/* Several at once: "criterion=fisher, lr=0.05, group=kron(tri,tri)". A comma inside brackets belongs to its value, and
 * white space around names and values does not count. On failure nothing is set. */
psgd_status psgd_options_parse(psgd_options *options, const char *list);

typedef enum psgd_option_type {
    PSGD_OPTION_REAL,    /* a finite number within the bounds */
    PSGD_OPTION_INTEGER, /* likewise, a whole number */
    PSGD_OPTION_BOOLEAN, /* yes or no */
    PSGD_OPTION_CHOICE,  /* one of the words in choices */
    PSGD_OPTION_TEXT
} psgd_option_type;

/* The description of one option. Strings live as long as the library. */
typedef struct psgd_option_info {
    const char *name;
    psgd_option_type type;
    char default_value[32];         /* as a user would write it; "": there is none, or it depends on the method */
    double min, max;                /* PSGD_OPTION_REAL and PSGD_OPTION_INTEGER; may be infinite */
    int min_excluded, max_excluded; /* 1: the value must not equal the bound */
    const char *const *choices;     /* PSGD_OPTION_CHOICE: the words, then NULL */
    const char *help;               /* one line */
} psgd_option_info;

#ifdef __cplusplus
}
#endif
#endif
