/* Text: a growing string, numbers read and written, the nearest name for a misspelt one. */
#ifndef PSGD_CORE_TEXT_H
#define PSGD_CORE_TEXT_H

#include <stdbool.h>
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

typedef struct suggestion {
    char words[80];
} suggestion;

/* "; did you mean NAME?", NAME the candidate nearest to word in edit distance, with a prefix; "" where none is near. */
suggestion psgd__suggest(const char *prefix, const char *word, const char *const *candidates, int count);

/* The whole word as a finite number, or as an integer; false where it is not one. */
bool psgd__parse_number(const char *word, double *number);
bool psgd__parse_integer(const char *word, int64_t *integer);

/* 1234567 -> "1,234,567" into a buffer of 32. Returns buffer. */
const char *psgd__thousands(int64_t number, char buffer[32]);

#endif
