#include "data/text/corpus.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"
#include "data/text/markov.h"

const char *const psgd__split_names[SPLIT_COUNT] = {"train", "valid", "test"};

static corpus new_corpus(const psgd_context *context)
{
    corpus made = {.words = {.context = context}, .entropy = NAN};
    for (int i = 0; i < SPLIT_COUNT; i++) made.text[i].context = context;
    return made;
}

static psgd_status read_split(const psgd_context *context, const char *folder, int split, corpus *made)
{
    text path = {.context = context};
    psgd__text_add(&path, "%s/%s.txt", folder, psgd__split_names[split]);
    psgd_status status;
    if (path.failed) {
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to read '%s'", folder);
    } else if (access(path.chars, F_OK) != 0) {
        status = psgd__fail(PSGD_ERR_IO, "there is no '%s'; a text to learn is train.txt, valid.txt and test.txt",
                            path.chars);
    } else {
        status = psgd__tokens_read(&made->text[split], &made->words, split == SPLIT_TRAIN, path.chars);
    }
    psgd__text_free(&path);
    return status;
}

psgd_status psgd__corpus_read(const psgd_context *context, const char *folder, corpus *made)
{
    struct stat about;
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode))
        return psgd__fail(PSGD_ERR_IO, "'%s' is not a folder with train.txt, valid.txt and test.txt", folder);
    corpus fresh = new_corpus(context);
    psgd_status status = PSGD_OK;
    for (int i = 0; status == PSGD_OK && i < SPLIT_COUNT; i++) status = read_split(context, folder, i, &fresh);
    if (status != PSGD_OK) {
        psgd__corpus_free(&fresh);
        return status;
    }
    *made = fresh;
    return PSGD_OK;
}

psgd_status psgd__corpus_markov(const psgd_context *context, int64_t words, int64_t followers, int64_t length,
                                uint64_t seed, corpus *made)
{
    markov chain = {0};
    corpus fresh = new_corpus(context);
    psgd_status status = psgd__markov_create(context, words, followers, seed, &chain);
    if (status == PSGD_OK) status = psgd__markov_words(&chain, &fresh.words);
    for (int i = 0; status == PSGD_OK && i < SPLIT_COUNT; i++)
        status = psgd__markov_draw(&chain, (uint64_t)i, i == SPLIT_TRAIN ? length : length / 8, &fresh.text[i]);
    fresh.entropy = chain.entropy;
    psgd__markov_free(&chain);
    if (status != PSGD_OK) {
        psgd__corpus_free(&fresh);
        return status;
    }
    *made = fresh;
    return PSGD_OK;
}

void psgd__corpus_free(corpus *from)
{
    psgd__vocabulary_free(&from->words);
    for (int i = 0; i < SPLIT_COUNT; i++) psgd__tokens_free(&from->text[i]);
}
