/* Reading a text into word numbers. */
#include "data/text/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"

bool psgd__tokens_add(tokens *to, int64_t number)
{
    if (!psgd__grow(to->context, &to->number, to->count + 1, &to->room, sizeof *to->number)) return false;
    to->number[to->count++] = (int32_t)number;
    return true;
}

void psgd__tokens_free(tokens *from)
{
    psgd__free(from->context, from->number);
    *from = (tokens){.context = from->context};
}

static bool is_space(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

int psgd__character_bytes(const unsigned char *c)
{
    if (*c < 0x80) return *c ? 1 : 0;
    int more = *c >= 0xc2 && *c <= 0xdf ? 1 : (*c & 0xf0) == 0xe0 ? 2 : *c >= 0xf0 && *c <= 0xf4 ? 3 : 0;
    for (int i = 1; i <= more; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
    }
    if ((*c == 0xe0 && c[1] < 0xa0) || (*c == 0xed && c[1] > 0x9f)) return 0; /* too long a form; half a pair */
    if ((*c == 0xf0 && c[1] < 0x90) || (*c == 0xf4 && c[1] > 0x8f)) return 0; /* too long a form; past the last */
    return more ? more + 1 : 0;
}

typedef struct reader {
    tokens *to;
    vocabulary *words;
    bool grow;
} reader;

static bool take_word(reader *self, const char *word, int64_t length)
{
    int64_t number = psgd__vocabulary_find(self->words, word, length);
    if (number < 0 && self->grow) number = psgd__vocabulary_add(self->words, word, length);
    if (number < 0 && !self->grow)
        number = psgd__vocabulary_add(self->words, UNKNOWN_WORD, (int64_t)strlen(UNKNOWN_WORD));
    return number >= 0 && psgd__tokens_add(self->to, number);
}

static psgd_status take_line(reader *self, const char *line, int64_t length, int64_t number)
{
    int64_t at = 0;
    while (at < length) {
        while (at < length && is_space((unsigned char)line[at])) at++;
        int64_t from = at;
        while (at < length && !is_space((unsigned char)line[at])) {
            int bytes = psgd__character_bytes((const unsigned char *)line + at);
            if (bytes == 0)
                return psgd__fail(PSGD_ERR_FORMAT, "byte %lld of line %lld is not UTF-8", (long long)(at + 1),
                                  (long long)number);
            at += bytes;
        }
        if (at > from && !take_word(self, line + from, at - from))
            return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for its words");
    }
    if (take_word(self, EOS_WORD, (int64_t)strlen(EOS_WORD))) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for its words");
}

psgd_status psgd__tokens_read(tokens *to, vocabulary *words, bool grow, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) return psgd__fail(PSGD_ERR_IO, "cannot open the text '%s': %s", path, strerror(errno));
    reader self = {to, words, grow};
    char *line = NULL;
    size_t room = 0;
    int64_t number = 0, before = to->count;
    bool words_seen = false;
    psgd_status status = PSGD_OK;
    for (ssize_t length; status == PSGD_OK && (length = getline(&line, &room, file)) > 0;) {
        int64_t count = to->count;
        status = take_line(&self, line, length, ++number);
        words_seen = words_seen || to->count > count + 1;
    }
    if (status == PSGD_OK && ferror(file)) status = psgd__fail(PSGD_ERR_IO, "%s", strerror(errno));
    if (status == PSGD_OK && !words_seen) status = psgd__fail(PSGD_ERR_FORMAT, "it has no words");
    free(line);
    fclose(file);
    if (status == PSGD_OK) return PSGD_OK;
    to->count = before;
    return psgd__fail_in(status, "the text '%s'", path);
}
