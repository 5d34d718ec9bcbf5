/* Three texts with one vocabulary. */
#ifndef PSGD_DATA_TEXT_CORPUS_H
#define PSGD_DATA_TEXT_CORPUS_H

#include "data/text/tokens.h"

typedef enum corpus_split { TEXT_TRAIN, TEXT_VALID, TEXT_TEST, TEXT_COUNT } corpus_split;

extern const char *const psgd__text_names[TEXT_COUNT]; /* "train", "valid", "test" */

typedef struct corpus {
    vocabulary words; /* of the train text */
    tokens text[TEXT_COUNT];
    double entropy; /* in nats a word; NaN where it is not known */
} corpus;

/* By name: "text:DIR", a folder with train.txt, valid.txt and test.txt; "chars:FILE", a file whose tokens are its
 * characters (text/characters.c); or "markov:WORDS,FOLLOWERS,LENGTH,SEED", of
 * which any may be left out from the right: a Markov language of this many words with followers each, whose valid and
 * test texts have an eighth of the train text. */
bool psgd__corpus_is_name(const char *name);
psgd_status psgd__corpus_open(const psgd_context *context, const char *name, corpus *made);
void psgd__corpus_free(corpus *from);

/* The three texts of "chars:FILE". */
psgd_status psgd__characters_read(const psgd_context *context, const char *path, corpus *made);

#endif
