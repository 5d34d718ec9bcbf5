#include "core/text.h"
#include "core/memory.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void psgd__text_add(text *to, const char *format, ...)
{
    if (to->failed) return;

    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int more = psgd__vprint(NULL, 0, format, args);
    va_end(args);
    if (more < 0 || !psgd__grow(to->context, &to->chars, to->length + more + 1, &to->room, 1)) {
        psgd__text_free(to);
        to->failed = true;
    } else {
        psgd__vprint(to->chars + to->length, (size_t)more + 1, format, again);
        to->length += more;
    }
    va_end(again);
}

void psgd__text_entry(text *to, const char *left, const char *words)
{
    enum { INDENT = 37, WIDTH = 100 };
    int64_t used = (int64_t)strlen(left) + 2;
    psgd__text_add(to, "  %s", left);
    if (used >= INDENT) psgd__text_add(to, "\n");
    psgd__text_add(to, "%*s", INDENT - (used < INDENT ? (int)used : 0), "");
    for (int64_t column = INDENT; *words;) {
        int length = (int)strcspn(words, " ");
        if (column > INDENT && column + 1 + length > WIDTH) {
            psgd__text_add(to, "\n%*s", INDENT, "");
            column = INDENT;
        }
        psgd__text_add(to, "%s%.*s", column > INDENT ? " " : "", length, words);
        column += length + (column > INDENT);
        words += length + (words[length] == ' ');
    }
    psgd__text_add(to, "\n");
}

void psgd__text_free(text *to)
{
    psgd__free(to->context, to->chars);
    *to = (text){.context = to->context};
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance of two short words; 99 where either is longer than 31. */
static int distance(const char *a, const char *b)
{
    int m = (int)strlen(a), n = (int)strlen(b), row[32];
    if (m > 31 || n > 31) return 99;

    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; i <= m; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int substitute = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(substitute, 1 + smaller(row[j], row[j - 1]));
        }
    }
    return row[n];
}

suggestion psgd__suggest(const char *prefix, const char *word, const char *const *candidates, int count)
{
    suggestion made = {""};
    const char *best = NULL;
    int min = 1 + (int)strlen(word) / 2; /* more edits than half the word is another word */
    for (int i = 0; i < count; i++) {
        int edits = distance(word, candidates[i]);
        if (edits < min) {
            min = edits;
            best = candidates[i];
        }
    }
    if (best) snprintf(made.words, sizeof made.words, "; did you mean %s%s?", prefix, best);
    return made;
}

alternatives psgd__suggest_or_list(const char *what, const char *word, const char *const *candidates, int count)
{
    alternatives found;
    const size_t room = sizeof found.words;
    size_t used = (size_t)snprintf(found.words, room, "%s", psgd__suggest("", word, candidates, count).words);
    for (int i = 0; (i > 0 || used == 0) && i < count && used < room; i++) {
        int more = i ? snprintf(found.words + used, room - used, ", %s", candidates[i])
                     : snprintf(found.words, room, "; %s are %s", what, candidates[0]);
        used += (size_t)more;
    }
    return found;
}

bool psgd__parse_number(const char *word, double *number)
{
    char *end;
    *number = psgd__to_number(word, &end);
    return end != word && !*end && isfinite(*number);
}

bool psgd__parse_integer(const char *word, int64_t *integer)
{
    char *end;
    errno = 0;
    *integer = strtoll(word, &end, 10);
    return end != word && !*end && !errno;
}

const char *psgd__thousands(int64_t number, char buffer[32])
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%lld", (long long)number), out = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && digits[i - 1] != '-' && (count - i) % 3 == 0) buffer[out++] = ',';
        buffer[out++] = digits[i];
    }
    buffer[out] = 0;
    return buffer;
}
