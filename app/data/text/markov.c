#include "data/text/markov.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/rng.h"

static bool is_among(const int32_t *list, int64_t count, int32_t number)
{
    for (int64_t i = 0; i < count; i++) {
        if (list[i] == number) return true;
    }
    return false;
}

/* The next word in the order, so that every word can be reached, and others, low numbers more often; weights u^2. */
static void draw_followers(const markov *self, int64_t word)
{
    rng_stream stream = psgd__rng_stream(self->seed, RNG_DATA, (uint64_t)word, 0);
    int32_t *next = self->next + word * self->followers;
    double *probability = self->probability + word * self->followers, sum = 0;
    uint64_t index = 0;
    next[0] = (int32_t)((word + 1) % self->words);
    for (int64_t i = 1; i < self->followers;) {
        double u = psgd__rng_uniform(&stream, index++);
        next[i] = (int32_t)((double)self->words * u * u);
        if (!is_among(next, i, next[i])) i++;
    }
    for (int64_t i = 0; i < self->followers; i++) {
        double u = psgd__rng_uniform(&stream, index++);
        sum += probability[i] = u * u;
    }
    for (int64_t i = 0; i < self->followers; i++) probability[i] /= sum;
}

/* share <- (share + share P) / 2: the average of both makes it converge for periodic chains too. */
static double step_share(const markov *self, double *share, double *moved)
{
    memset(moved, 0, (size_t)self->words * sizeof *moved);
    for (int64_t w = 0; w < self->words; w++) {
        for (int64_t i = w * self->followers; i < (w + 1) * self->followers; i++)
            moved[self->next[i]] += share[w] * self->probability[i];
    }
    double change = 0;
    for (int64_t w = 0; w < self->words; w++) {
        change += fabs(moved[w] - share[w]);
        share[w] = 0.5 * (share[w] + moved[w]);
    }
    return change;
}

/* sum over words of their share of a long text times the entropy of what follows */
static psgd_status find_entropy(markov *self)
{
    double *share = psgd__alloc(self->context, 2 * self->words, sizeof *share);
    if (!share) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a language of %lld words", (long long)self->words);
    for (int64_t w = 0; w < self->words; w++) share[w] = 1 / (double)self->words;
    for (int i = 0; i < 10000 && step_share(self, share, share + self->words) > 1e-13; i++) continue;
    for (int64_t w = 0; w < self->words; w++) {
        for (int64_t i = w * self->followers; i < (w + 1) * self->followers; i++)
            self->entropy -= share[w] * self->probability[i] * log(self->probability[i]);
    }
    psgd__free(self->context, share);
    return PSGD_OK;
}

psgd_status psgd__markov_create(const psgd_context *context, int64_t words, int64_t followers, uint64_t seed,
                                markov *chain)
{
    if (words < 2 || words > INT32_MAX / 2 || followers < 1 || followers > words / 2)
        return psgd__fail(PSGD_ERR_ARGUMENT, "a language of %lld words can have 1 to %lld followers for each, not %lld",
                          (long long)words, (long long)(words / 2), (long long)followers);
    markov made = {.context = context, .words = words, .followers = followers, .seed = seed};
    made.next = psgd__alloc(context, words * followers, sizeof *made.next);
    made.probability = psgd__alloc(context, words * followers, sizeof *made.probability);
    psgd_status status = PSGD_OK;
    if (!made.next || !made.probability) {
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a language of %lld words", (long long)words);
    } else {
        for (int64_t w = 0; w < words; w++) draw_followers(&made, w);
        status = find_entropy(&made);
    }
    if (status != PSGD_OK) {
        psgd__markov_free(&made);
        return status;
    }
    *chain = made;
    return PSGD_OK;
}

void psgd__markov_free(markov *chain)
{
    psgd__free(chain->context, chain->next);
    psgd__free(chain->context, chain->probability);
    *chain = (markov){.context = chain->context};
}

/* Word n > 0 in syllables: n - 1 to the base of their number. */
static int64_t spell(int64_t number, char letters[32])
{
    static const char consonants[] = "bdfgklmnprstvz", vowels[] = "aeiou";
    const int64_t syllables = (int64_t)(sizeof consonants - 1) * (int64_t)(sizeof vowels - 1);
    int64_t length = 0;
    for (int64_t left = number - 1, first = 1; first || left > 0; left /= syllables, first = 0) {
        letters[length++] = consonants[left % syllables / 5];
        letters[length++] = vowels[left % syllables % 5];
    }
    return length;
}

psgd_status psgd__markov_words(const markov *chain, vocabulary *words)
{
    char letters[32];
    bool added = psgd__vocabulary_add(words, EOS_WORD, (int64_t)strlen(EOS_WORD)) >= 0;
    for (int64_t w = 1; added && w < chain->words; w++) {
        int64_t length = spell(w, letters);
        added = psgd__vocabulary_add(words, letters, length) >= 0;
    }
    if (added) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a language of %lld words", (long long)chain->words);
}

psgd_status psgd__markov_draw(const markov *chain, uint64_t stream, int64_t count, tokens *to)
{
    /* Steps of the streams of rows are 0, those of draws 1 and up: no number is used twice. */
    rng_stream size = psgd__rng_stream(chain->seed, RNG_DATA, 0, 1 + stream);
    int64_t word = (int64_t)psgd__rng_below(&size, 0, (uint64_t)chain->words);
    for (int64_t t = 0; t < count; t++) {
        double u = psgd__rng_uniform(&size, (uint64_t)(t + 2));
        const double *probability = chain->probability + word * chain->followers;
        int64_t i = 0;
        while (i + 1 < chain->followers && u > probability[i]) u -= probability[i++];
        word = chain->next[word * chain->followers + i];
        if (!psgd__tokens_add(to, word))
            return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld words", (long long)count);
    }
    return PSGD_OK;
}
