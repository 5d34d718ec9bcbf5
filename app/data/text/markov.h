/* A language that is a Markov chain over made-up words, with known entropy: nothing can predict it better.
 *
 * Each word has a few followers; the probabilities of the followers, and which they are, are a function of the seed. */
#ifndef PSGD_DATA_TEXT_MARKOV_H
#define PSGD_DATA_TEXT_MARKOV_H

#include "data/text/tokens.h"

typedef struct markov {
    const psgd_context *context;
    int64_t words, followers;
    uint64_t seed;
    int32_t *next;       /* [words, followers] */
    double *probability; /* [words, followers], each row sums to 1 */
    double entropy;      /* in nats a word */
} markov;

psgd_status psgd__markov_create(const psgd_context *context, int64_t words, int64_t followers, uint64_t seed,
                                markov *chain);
void psgd__markov_free(markov *chain);

/* The made-up words in their order; word 0 is EOS_WORD. */
psgd_status psgd__markov_words(const markov *chain, vocabulary *words);

/* count words from the stream of this number; streams are independent. */
psgd_status psgd__markov_draw(const markov *chain, uint64_t stream, int64_t count, tokens *to);

#endif
