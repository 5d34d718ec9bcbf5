#include "data/text/corpus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"
#include "data/text/markov.h"

const char *const psgd__text_names[TEXT_COUNT] = {"train", "valid", "test"};

static corpus new_corpus(const psgd_context *context)
{
    corpus made = {.words = {.context = context}, .entropy = NAN};
    for (int i = 0; i < TEXT_COUNT; i++) made.text[i].context = context;
    return made;
}

static psgd_status read_split(const psgd_context *context, const char *folder, int split, corpus *made)
{
    text path = {.context = context};
    psgd__text_add(&path, "%s/%s.txt", folder, psgd__text_names[split]);
    psgd_status status;
    if (path.failed) {
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to read '%s'", folder);
    } else if (access(path.chars, F_OK) != 0) {
        status = psgd__fail(PSGD_ERR_IO, "there is no '%s'; a text to learn is train.txt, valid.txt and test.txt",
                            path.chars);
    } else {
        status = psgd__tokens_read(&made->text[split], &made->words, split == TEXT_TRAIN, path.chars);
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
    for (int i = 0; status == PSGD_OK && i < TEXT_COUNT; i++) status = read_split(context, folder, i, &fresh);
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
    for (int i = 0; status == PSGD_OK && i < TEXT_COUNT; i++)
        status = psgd__markov_draw(&chain, (uint64_t)i, i == TEXT_TRAIN ? length : length / 8, &fresh.text[i]);
    fresh.entropy = chain.entropy;
    psgd__markov_free(&chain);
    if (status != PSGD_OK) {
        psgd__corpus_free(&fresh);
        return status;
    }
    *made = fresh;
    return PSGD_OK;
}

bool psgd__corpus_is_name(const char *name)
{
    return !strncmp(name, "text:", 5) || !strcmp(name, "markov") || !strncmp(name, "markov:", 7);
}

psgd_status psgd__corpus_open(const psgd_context *context, const char *name, corpus *made)
{
    long long words = 1000, followers = 8, length = 200000, seed = 1;
    int end = 0;
    if (!psgd__corpus_is_name(name)) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "a language model takes --data text:DIR, or the synthetic markov, and not '%s'", name);
    }
    if (*name == 't') return psgd__corpus_read(context, name + 5, made);
    const char *at = name + strlen("markov");
    long long *const values[] = {&words, &followers, &length, &seed};
    for (int i = 0; i < 4 && *at && sscanf(at, i ? ",%18lld%n" : ":%18lld%n", values[i], &end) == 1; i++) at += end;
    if (*at || length < 16 || seed < 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "'%s' is not markov:WORDS,FOLLOWERS,LENGTH,SEED, as in markov:1000,8,200000,1; the length is "
                          "16 or more",
                          name);
    }
    return psgd__corpus_markov(context, words, followers, length, (uint64_t)seed, made);
}

void psgd__corpus_free(corpus *from)
{
    psgd__vocabulary_free(&from->words);
    for (int i = 0; i < TEXT_COUNT; i++) psgd__tokens_free(&from->text[i]);
}
