/* Images by number, decoded by threads of their own before they are asked for. */
#ifndef PSGD_DATA_IMAGE_IMAGE_QUEUE_H
#define PSGD_DATA_IMAGE_IMAGE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

typedef struct image_queue image_queue;

/* What an image is cut from: row and column of the crop's corner, and whether columns run backwards. */
typedef struct image_place {
    int64_t top, left;
    bool mirrored;
} image_place;

/* The work of one image, on any thread, with a decoder that is this thread's: pixels, label and place of item number
 * index of a request. */
typedef struct image_work {
    void *data;
    psgd_status (*open)(void *data, void **decoder);
    void (*close)(void *decoder);
    psgd_status (*make)(void *data, void *decoder, int64_t index, bool announced, uint64_t seed, uint64_t epoch,
                        unsigned char *pixels, float *label, image_place *place);
} image_work;

/* A request that is done. */
typedef struct image_batch {
    const unsigned char *pixels; /* [n][bytes] */
    const float *label;
    const image_place *place;
} image_batch;

psgd_status psgd__image_queue_create(const psgd_context *context, const image_work *work, int64_t threads,
                                     int64_t bytes, image_queue **created);
void psgd__image_queue_free(image_queue *self); /* NULL is fine */

/* Starts on a request. Where two are under way already nothing happens, nor where there is no memory. */
void psgd__image_queue_announce(image_queue *self, int64_t n, const int64_t *index, uint64_t seed, uint64_t epoch);

/* The request as it was announced, or made now; this thread helps. What batch points at stays until the next call. */
psgd_status psgd__image_queue_take(image_queue *self, int64_t n, const int64_t *index, image_batch *batch);

#endif
