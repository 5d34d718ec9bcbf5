/* Text: a growing string, numbers read and written, the nearest name for a misspelt one. */
#ifndef PSGD_CORE_TEXT_H
#define PSGD_CORE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

/* Starts as {.context = c}. After a failed allocation it stays empty and failed is true. */
typedef struct text {
    const psgd_context *context;
    char *chars; /* NULL or zero-terminated */
    int64_t length, room;
    bool failed;
} text;

void psgd__text_add(text *to, const char *format, ...) PSGD_PRINTF(2, 3);
void psgd__text_free(text *to);

/* A line of a list: "  left   words", the words in a column of their own, broken before column 100. */
void psgd__text_entry(text *to, const char *left, const char *words);

typedef struct suggestion {
    char words[80];
} suggestion;

/* "; did you mean NAME?", NAME the candidate nearest to word in edit distance, with a prefix; "" where none is near. */
suggestion psgd__suggest(const char *prefix, const char *word, const char *const *candidates, int count);

typedef struct alternatives {
    char words[320];
} alternatives;

/* As psgd__suggest; where none is near, "; WHAT are one, two, three". */
alternatives psgd__suggest_or_list(const char *what, const char *word, const char *const *candidates, int count);

/* snprintf, vsnprintf and strtod, but as in the C locale: a decimal comma of the program's is not ours to write or
 * read. */
int psgd__print(char *to, size_t room, const char *format, ...) PSGD_PRINTF(3, 4);
int psgd__vprint(char *to, size_t room, const char *format, va_list args) PSGD_PRINTF(3, 0);
double psgd__to_number(const char *word, char **end);

/* The whole word as a finite number, or as an integer; false where it is not one. */
bool psgd__parse_number(const char *word, double *number);
bool psgd__parse_integer(const char *word, int64_t *integer);

/* 1234567 -> "1,234,567" into a buffer of 32. Returns buffer. */
const char *psgd__thousands(int64_t number, char buffer[32]);

#endif
