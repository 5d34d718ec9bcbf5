/* Option tables: one row describes an option for validation, --help, man pages and bindings alike. */
#ifndef PSGD_CORE_OPTIONS_H
#define PSGD_CORE_OPTIONS_H

#include <psgd/options.h>
#include "core/text.h"

enum {                                     /* the field that a row sets: */
       OPTION_NUMBER = PSGD_OPTION_REAL,   /* double */
       OPTION_COUNT = PSGD_OPTION_INTEGER, /* int64_t */
       OPTION_FLAG = PSGD_OPTION_BOOLEAN,  /* bool */
       OPTION_CHOICE = PSGD_OPTION_CHOICE, /* int: the index of the word in choices */
       OPTION_TEXT = PSGD_OPTION_TEXT      /* const char *, borrowed from the option list, which must outlive it */
};

typedef struct option_row {
    const char *name;
    int kind;                   /* OPTION_NUMBER, ... */
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

/* The value of a name, or NULL where it is not in the list (which may be NULL). */
const char *psgd__options_find(const psgd_options *options, const char *name);

/* Fills the settings of all tables: defaults first, then the list (may be NULL). Fails, with settings half filled, on a
 * name that no table has and on a value that does not fit its row. */
psgd_status psgd__options_read(const psgd_options *options, const option_table *tables, int table_count);

/* The two halves of it. */
psgd_status psgd__options_defaults(const option_table *tables, int table_count);
psgd_status psgd__options_apply(const psgd_options *options, const option_table *tables, int table_count);

/* Describes the row at index: returns 1, or 0 past the last row. */
int psgd__option_at(const option_row *rows, int count, int index, psgd_option_info *option);

/* Replaces the default by the value that the settings have, where the two differ. A text stays. */
void psgd__option_in_force(const option_row *row, const void *settings, psgd_option_info *option);

/* Sets one option, with the same errors. */
psgd_status psgd__option_set(const option_table *tables, int table_count, const char *name, const char *value);

/* A call that describes options, psgd_precond_option say. */
typedef int option_source(int index, psgd_option_info *option);

/* Adds the placeholder of an option's value: "X", "max|none". */
void psgd__option_value(text *to, const psgd_option_info *option);

/* Adds "  --name VALUE   help [default]". */
void psgd__option_help(text *to, const psgd_option_info *option);

#endif
