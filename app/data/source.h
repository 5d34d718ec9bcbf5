/* Sources of labelled samples, one file each: files on disk, and synthetic ones that need none.
 *
 * A source is named "kind" or "kind:argument". Samples are numbered; a read asks for any of them in any order and
 * writes them with the sample as the last dimension, [features, n], as the graph takes them. To add a source: a file
 * with its table and a line in source.c. */
#ifndef PSGD_DATA_SOURCE_H
#define PSGD_DATA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/memory.h"
#include "core/status.h"
#include <psgd/dtype.h>

enum { SOURCE_MAX_DIMS = 7 };

typedef enum source_split { SPLIT_TRAIN, SPLIT_TEST } source_split;

typedef struct source source;

/* What a caller may ask for; 0 leaves it to the source. */
typedef struct source_settings {
    uint64_t seed;         /* of synthetic samples, and of what is held out */
    int64_t samples;       /* in the training split */
    int64_t height, width; /* images from files: short side resized, centre cropped */
    double holdout;        /* the share of samples for the test split, where a source has none */
    bool regression;       /* tables: y is a number even where every label could be a class */
    /* JPEGs: short side before the crop; threads that decode; a file of decoded images, made where it is missing; a
     * file with the classes of test images that are not in class folders. */
    int64_t resize, threads;
    const char *cache, *truth;
    bool subtract_mean;       /* JPEGs: pixels from 0 to 255 minus the mean image of the training split */
    bool random_crop, mirror; /* JPEGs: of announced reads of the training split */
    const source *training;   /* JPEGs: the training split, where the test split is opened: its mean and classes */
} source_settings;

typedef struct source_kind source_kind;

typedef struct source_request {
    const psgd_context *context;
    const source_kind *kind;
    const char *argument; /* NULL where there is none */
    source_split split;
    const source_settings *settings;
} source_request;

struct source_kind {
    const char *name, *argument, *summary; /* argument: "DIR", or NULL where it may be missing */
    psgd_status (*open)(const source_request *request, source **opened);
};

struct source {
    const psgd_context *context;
    int ndim;
    int64_t sample[SOURCE_MAX_DIMS]; /* shape of a sample */
    int64_t features;                /* values of a sample */
    int64_t count, classes;          /* classes 1: y is a number */
    int64_t occurring;               /* tables: classes that are the label of a sample, of either split; else 0 */
    uint64_t checksum;               /* tables: of all samples and labels, of either split; else 0 */
    /* Writes samples index[0 .. n-1] into x [features, n] and y [n]; may be called by one thread at a time. */
    psgd_status (*read)(source *self, int64_t n, const int64_t *index, float *x, float *y);
    void (*close)(source *self); /* frees everything */
    /* OPTIONAL: announces that these samples will be read next, after those announced before, so that they can be
     * prepared in the background; the crop of an image is a function of seed, epoch and index. A read of others is fine
     * too. */
    void (*announce)(source *self, int64_t n, const int64_t *index, uint64_t seed, uint64_t epoch);
    double waited;       /* seconds that reads have waited for samples */
    int64_t passed_over; /* files that could not be read; another took the place of each */
    char first_bad[256]; /* the sentence about the first of them */
};

const source_kind *psgd__source_at(int index); /* NULL past the last */
psgd_status psgd__source_open(const psgd_context *context, const char *name, source_split split,
                              const source_settings *settings, source **opened);
void psgd__source_close(source *self); /* NULL is fine */

/* The order of an epoch: index <- a permutation of 0 .. count - 1, a function of seed and epoch. */
void psgd__source_shuffle(uint64_t seed, uint64_t epoch, int64_t count, int64_t *index);

/* Which samples of count are in the split, where a source has no files for each: a function of the seed. kept has room
 * for count; the result is how many. */
int64_t psgd__source_hold_out(uint64_t seed, double share, source_split split, int64_t count, int64_t *kept);

extern const source_kind psgd__source_idx, psgd__source_digits, psgd__source_xor, psgd__source_adding, psgd__source_csv,
    psgd__source_npy, psgd__source_images, psgd__source_logit, psgd__source_ratings, psgd__source_oscillator;

#endif
