/* Three texts with one vocabulary. */
#ifndef PSGD_DATA_TEXT_CORPUS_H
#define PSGD_DATA_TEXT_CORPUS_H

#include "data/text/tokens.h"

typedef enum corpus_split { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST, SPLIT_COUNT } corpus_split;

extern const char *const psgd__split_names[SPLIT_COUNT]; /* "train", "valid", "test" */

typedef struct corpus {
    vocabulary words; /* of the train text */
    tokens text[SPLIT_COUNT];
    double entropy; /* in nats a word; NaN where nobody knows */
} corpus;

/* folder/train.txt, valid.txt and test.txt. */
psgd_status psgd__corpus_read(const psgd_context *context, const char *folder, corpus *made);

/* A Markov language of this many words with followers each; valid and test have an eighth of the train text. */
psgd_status psgd__corpus_markov(const psgd_context *context, int64_t words, int64_t followers, int64_t length,
                                uint64_t seed, corpus *made);
void psgd__corpus_free(corpus *from);

#endif
