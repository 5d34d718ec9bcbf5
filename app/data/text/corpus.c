#include "data/text/corpus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"
#include "data/text/markov.h"

const char *const psgd__text_names[TEXT_COUNT] = {"train", "valid", "test"};

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

static psgd_status read_folder(const psgd_context *context, const char *folder, corpus *made)
{
    struct stat about;
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode))
        return psgd__fail(PSGD_ERR_IO, "'%s' is not a folder with train.txt, valid.txt and test.txt", folder);
    for (int i = 0; i < TEXT_COUNT; i++) PSGD_TRY(read_split(context, folder, i, made));
    return PSGD_OK;
}

/* name is "markov" or "markov:WORDS,..". */
static psgd_status draw_markov(const psgd_context *context, const char *name, corpus *made)
{
    long long words = 1000, followers = 8, length = 200000, seed = 1;
    long long *const values[] = {&words, &followers, &length, &seed};
    const char *at = name + strlen("markov");
    int end = 0;
    for (int i = 0; i < 4 && *at && sscanf(at, i ? ",%18lld%n" : ":%18lld%n", values[i], &end) == 1; i++) at += end;
    if (*at || length < 16 || seed < 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "'%s' is not markov:WORDS,FOLLOWERS,LENGTH,SEED, as in markov:1000,8,200000,1; the length is "
                          "16 or more",
                          name);
    }
    markov chain = {0};
    psgd_status status = psgd__markov_create(context, words, followers, (uint64_t)seed, &chain);
    if (status == PSGD_OK) status = psgd__markov_words(&chain, &made->words);
    for (int i = 0; status == PSGD_OK && i < TEXT_COUNT; i++)
        status = psgd__markov_draw(&chain, (uint64_t)i, i == TEXT_TRAIN ? length : length / 8, &made->text[i]);
    made->entropy = chain.entropy;
    psgd__markov_free(&chain);
    return status;
}

bool psgd__corpus_is_name(const char *name)
{
    return !strncmp(name, "text:", 5) || !strncmp(name, "chars:", 6) || !strcmp(name, "markov") ||
           !strncmp(name, "markov:", 7);
}

psgd_status psgd__corpus_open(const psgd_context *context, const char *name, corpus *made)
{
    if (!psgd__corpus_is_name(name)) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "a language model takes --data text:DIR or chars:FILE, or the synthetic markov, and not '%s'",
                          name);
    }
    corpus fresh = {.words = {.context = context}, .entropy = NAN};
    for (int i = 0; i < TEXT_COUNT; i++) fresh.text[i].context = context;
    psgd_status status = *name == 't'   ? read_folder(context, name + 5, &fresh)
                         : *name == 'c' ? psgd__characters_read(context, name + 6, &fresh)
                                        : draw_markov(context, name, &fresh);
    if (status == PSGD_OK) {
        *made = fresh;
    } else {
        psgd__corpus_free(&fresh);
    }
    return status;
}

void psgd__corpus_free(corpus *from)
{
    psgd__vocabulary_free(&from->words);
    for (int i = 0; i < TEXT_COUNT; i++) psgd__tokens_free(&from->text[i]);
}
