/* Option tables: one row describes an option for validation, --help, man pages and bindings alike. */
#ifndef PSGD_CORE_OPTIONS_H
#define PSGD_CORE_OPTIONS_H

#include <psgd/options.h>
#include "core/text.h"

typedef enum option_kind {
    OPTION_NUMBER, /* double, within [least, most] */
    OPTION_COUNT,  /* int64_t, within [least, most] */
    OPTION_FLAG,   /* bool: yes or no */
    OPTION_CHOICE, /* int: the index of the word in choices */
    OPTION_TEXT    /* const char *, borrowed from the option list, which must live as long as the settings */
} option_kind;

typedef struct option_row {
    const char *name;
    option_kind kind;
    size_t offset;              /* of the field in the settings struct */
    const char *standard;       /* the default, as a user would write it; NULL leaves the field alone */
    double min, max;            /* OPTION_NUMBER and OPTION_COUNT */
    bool above, below;          /* the bound itself is excluded */
    const char *const *choices; /* OPTION_CHOICE, ends with NULL */
    const char *help;           /* one line */
} option_row;

typedef struct option_table {
    const option_row *rows;
    int count;
    void *settings;
} option_table;

/* Fills the settings of all tables: defaults first, then the list (may be NULL). Fails, with settings half filled, on a
 * name that no table has and on a value that does not fit its row. */
psgd_status psgd__options_read(const psgd_options *options, const option_table *tables, int table_count);

/* Adds what stands for an option's value: "X", "max|none". */
void psgd__option_value(text *to, const option_row *row);

/* Adds "  --name VALUE   help [default]" for each row. */
void psgd__options_help(text *to, const option_row *rows, int count);

#endif
