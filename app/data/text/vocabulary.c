/* Words and their numbers: a table of hashes over one string of letters. */
#include "data/text/tokens.h"

#include <string.h>

#include "core/checksum.h"
#include "core/memory.h"

/* The slot that has this word, or the free one where it belongs. */
static int64_t slot_of(const vocabulary *words, const char *word, int64_t length)
{
    uint64_t hash = psgd__checksum_add(CHECKSUM_START, word, length);
    int64_t at = (int64_t)((hash ^ hash >> 32) &
                           (uint64_t)(words->slots - 1)); /* its last bytes are in the upper half */
    for (;; at = (at + 1) & (words->slots - 1)) {
        if (words->slot[at] < 0) return at;
        const char *there = words->letters + words->start[words->slot[at]];
        if (!strncmp(there, word, (size_t)length) && !there[length]) return at;
    }
}

int64_t psgd__vocabulary_find(const vocabulary *words, const char *word, int64_t length)
{
    return words->slots ? words->slot[slot_of(words, word, length)] : -1;
}

/* Twice the room, with at most half of the slots taken. */
static bool more_words(vocabulary *words)
{
    if (words->count < words->room) return true;
    int64_t room = words->room ? 2 * words->room : 1024;
    int64_t *start = psgd__alloc(words->context, room, sizeof *start);
    int32_t *slot = psgd__alloc(words->context, 2 * room, sizeof *slot);
    if (!start || !slot) {
        psgd__free(words->context, start);
        psgd__free(words->context, slot);
        return false;
    }
    if (words->count) memcpy(start, words->start, (size_t)words->count * sizeof *start);
    psgd__free(words->context, words->start);
    psgd__free(words->context, words->slot);
    words->start = start;
    words->slot = slot;
    words->room = room;
    words->slots = 2 * room;
    for (int64_t i = 0; i < words->slots; i++) slot[i] = -1;
    for (int64_t i = 0; i < words->count; i++) {
        const char *word = words->letters + start[i];
        slot[slot_of(words, word, (int64_t)strlen(word))] = (int32_t)i;
    }
    return true;
}

int64_t psgd__vocabulary_add(vocabulary *words, const char *word, int64_t length)
{
    int64_t known = psgd__vocabulary_find(words, word, length);
    if (known >= 0) return known;
    int64_t need = words->letters_used + length + 1;
    if (words->count == INT32_MAX || !more_words(words) ||
        !psgd__grow(words->context, &words->letters, need, &words->letters_room, 1)) {
        return -1;
    }
    int64_t number = words->count++;
    words->slot[slot_of(words, word, length)] = (int32_t)number;
    words->start[number] = words->letters_used;
    memcpy(words->letters + words->letters_used, word, (size_t)length);
    words->letters[words->letters_used + length] = 0;
    words->letters_used += length + 1;
    return number;
}

const char *psgd__vocabulary_word(const vocabulary *words, int64_t number)
{
    return words->letters + words->start[number];
}

void psgd__vocabulary_free(vocabulary *words)
{
    psgd__free(words->context, words->letters);
    psgd__free(words->context, words->start);
    psgd__free(words->context, words->slot);
    *words = (vocabulary){.context = words->context};
}
