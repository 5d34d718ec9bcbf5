/* A text from character to character: one file, of which the last tenth is held out, half of it for validation and half
 * for the test. Each UTF-8 character is a token, the end of a line included. */
#include "data/text/corpus.h"

#include <string.h>

#include "core/memory.h"
#include "data/format/gzip.h"

static psgd_status bad_byte(const char *path, int64_t at)
{
    return psgd__fail(PSGD_ERR_FORMAT, "byte %lld of the text '%s' is not UTF-8", (long long)(at + 1), path);
}

static psgd_status count_characters(const char *path, const unsigned char *bytes, int64_t size, int64_t *count)
{
    *count = 0;
    for (int64_t at = 0, step; at < size; at += step, ++*count) {
        step = psgd__character_bytes(bytes + at);
        if (step == 0 || at + step > size) return bad_byte(path, at);
    }
    if (*count >= 40) return PSGD_OK;
    return psgd__fail(PSGD_ERR_FORMAT, "the text '%s' has %lld characters; splits need at least 40", path,
                      (long long)*count);
}

static bool take(corpus *made, corpus_split split, const char *character, int64_t length)
{
    vocabulary *words = &made->words;
    int64_t number = psgd__vocabulary_find(words, character, length);
    if (number < 0 && split == TEXT_TRAIN) number = psgd__vocabulary_add(words, character, length);
    if (number < 0) number = psgd__vocabulary_add(words, UNKNOWN_WORD, (int64_t)strlen(UNKNOWN_WORD));
    return number >= 0 && psgd__tokens_add(&made->text[split], number);
}

static psgd_status split_characters(const char *path, const unsigned char *bytes, int64_t size, corpus *made)
{
    int64_t count, number = 0;
    PSGD_TRY(count_characters(path, bytes, size, &count));
    int64_t held = count / 10, train = count - held, valid = train + held / 2;
    for (int64_t at = 0, step; at < size; at += step, number++) {
        corpus_split split = number < train ? TEXT_TRAIN : number < valid ? TEXT_VALID : TEXT_TEST;
        step = psgd__character_bytes(bytes + at);
        if (!take(made, split, (const char *)bytes + at, step)) {
            return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the text '%s'", path);
        }
    }
    return PSGD_OK;
}

psgd_status psgd__characters_read(const psgd_context *context, const char *path, corpus *made)
{
    unsigned char *bytes;
    int64_t size;
    PSGD_TRY(psgd__file_read(context, path, &bytes, &size));
    psgd_status status = split_characters(path, bytes, size, made);
    psgd__free(context, bytes);
    return status;
}
