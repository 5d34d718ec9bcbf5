/* Text: a growing string, and the nearest name for a misspelt one. */
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

/* The candidate nearest to word in edit distance, or NULL where none is near enough to be worth suggesting. */
const char *psgd__nearest(const char *word, const char *const *candidates, int count);

/* 1234567 -> "1,234,567" into a buffer of 32. Returns buffer. */
const char *psgd__thousands(int64_t number, char buffer[32]);

#endif
