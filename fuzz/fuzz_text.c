/* A text as words, as words of a vocabulary that does not grow, and as characters. */
#include "fuzz.h"

#include "data/text/corpus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const psgd_context *context = fuzz_context(true);
    const char *path = fuzz_file(0, data, size);
    vocabulary words = {.context = context};
    tokens first = {.context = context}, second = {.context = context};
    if (psgd__tokens_read(&first, &words, true, path) == PSGD_OK) {
        int64_t known = words.count;
        FUZZ_ASSERT(known > 0 && first.count > 0);
        FUZZ_ASSERT(psgd__tokens_read(&second, &words, false, path) == PSGD_OK);
        FUZZ_ASSERT(words.count <= known + 1 && second.count == first.count);
        FUZZ_ASSERT(!memcmp(first.number, second.number, (size_t)first.count * sizeof *first.number));
        for (int64_t i = 0; i < first.count; i++) FUZZ_ASSERT(first.number[i] >= 0 && first.number[i] < known);
        for (int64_t i = 0; i < known; i++) {
            const char *word = psgd__vocabulary_word(&words, i);
            FUZZ_ASSERT(psgd__vocabulary_find(&words, word, (int64_t)strlen(word)) == i);
        }
    }
    psgd__tokens_free(&first);
    psgd__tokens_free(&second);
    psgd__vocabulary_free(&words);
    corpus made = {0};
    if (psgd__characters_read(context, path, &made) == PSGD_OK) FUZZ_ASSERT(made.words.count > 0);
    psgd__corpus_free(&made);
    return 0;
}
