/* Text as a sequence of word numbers.
 *
 * Words stand between white space; every line ends with EOS_WORD. Words are numbered in the order in which they first
 * appear. */
#ifndef PSGD_DATA_TEXT_TOKENS_H
#define PSGD_DATA_TEXT_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

#define EOS_WORD     "<eos>"
#define UNKNOWN_WORD "<unk>"

typedef struct vocabulary {
    const psgd_context *context;
    char *letters; /* the words one after the other, each with a zero byte */
    int64_t letters_used, letters_room;
    int64_t *start; /* [count] where word i begins in letters */
    int64_t count, room;
    int32_t *slot; /* open hashing, a power of two of slots; -1: free */
    int64_t slots;
} vocabulary;

/* Starts as {.context = c}. -1 where the word is not there. */
int64_t psgd__vocabulary_find(const vocabulary *words, const char *word, int64_t length);
/* The number of a word, which is added where it is new; -1 where there is no memory. */
int64_t psgd__vocabulary_add(vocabulary *words, const char *word, int64_t length);
const char *psgd__vocabulary_word(const vocabulary *words, int64_t number);
void psgd__vocabulary_free(vocabulary *words);

typedef struct tokens {
    const psgd_context *context;
    int32_t *number; /* [count] */
    int64_t count, room;
} tokens;

bool psgd__tokens_add(tokens *to, int64_t number); /* false: no memory */
void psgd__tokens_free(tokens *from);

/* How many bytes the character at c has; 0 where it is not UTF-8. Bytes past the end are zero. */
int psgd__character_bytes(const unsigned char *c);

/* Reads a UTF-8 text. New words are added to words where grow is true, else they count as UNKNOWN_WORD, which is added
 * where it is missing. An empty text, and one that is not UTF-8, is an error. */
psgd_status psgd__tokens_read(tokens *to, vocabulary *words, bool grow, const char *path);

#endif
