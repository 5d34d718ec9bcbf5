/* A folder of class folders of JPEGs, as ImageNet has them: images:DIR with DIR/train/<class>/.. and DIR/test/ or
 * DIR/val/, or DIR/<class>/.. with a share held out. Classes are numbered in the order of their names. DIR/val may also
 * be flat, with the classes of its images in a file of their own.
 *
 * Images are decoded by threads of their own, those that were announced before they are read. The short side is
 * resized and the crop taken at the centre, or anywhere; pixels go from 0 to 1, [3, h, w], or from 0 to 255 minus the
 * mean image. An image that cannot be read is skipped: the next one in the order of the files takes its place,
 * so that a batch is a function of the files and the numbers asked for, whatever the threads. */
#include "core/clock.h"
#include "core/rng.h"
#include "data/image/image_cache.h"
#include "data/image/image_files.h"
#include "data/image/image_queue.h"
#include "data/image/jpeg.h"
#include "data/source.h"

#include <psgd/threads.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEAN_OF = 10000, CACHE_AT_ONCE = 64, TRIES = 1000, BLOCK = 64 };

typedef struct image_source {
    source base;
    image_files files;
    int64_t *kept;
    int64_t height, width; /* of an image before the crop */
    bool random_crop, mirror, train;
    float *mean; /* [height, width, 3], or NULL */
    bool *bad;   /* [files.count] */
    bool whole;  /* the queue makes images before the crop: for the mean and the cache */
    image_cache *cache;
    image_queue *queue;
    pthread_mutex_t lock; /* of bad and what the base says about it */
} image_source;

typedef struct image_decoder {
    const image_source *self;
    jpeg_decoder *jpeg;
    unsigned char *rgb; /* [height, width, 3] */
} image_decoder;

static void decoder_close(void *data)
{
    image_decoder *decoder = data;
    psgd__jpeg_close(decoder->jpeg);
    psgd__free(decoder->self->base.context, decoder->rgb);
    psgd__free(decoder->self->base.context, decoder);
}

static psgd_status decoder_open(void *data, void **opened)
{
    const image_source *self = data;
    image_decoder *decoder = psgd__alloc(self->base.context, 1, sizeof *decoder);
    if (!decoder) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to decode images");
    decoder->self = self;
    decoder->rgb = psgd__alloc(self->base.context, 3 * self->height * self->width, 1);
    psgd_status status = decoder->rgb ? psgd__jpeg_open(self->base.context, &decoder->jpeg)
                                      : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to decode images");
    if (status != PSGD_OK) {
        decoder_close(decoder);
        return status;
    }
    *opened = decoder;
    return PSGD_OK;
}

static void mark_bad(image_source *self, int64_t file)
{
    pthread_mutex_lock(&self->lock);
    if (!self->bad[file]) {
        self->bad[file] = true;
        if (self->base.passed_over++ == 0) {
            snprintf(self->base.first_bad, sizeof self->base.first_bad, "%.255s", psgd_last_error());
        }
    }
    pthread_mutex_unlock(&self->lock);
}

static psgd_status read_image(image_source *self, image_decoder *decoder, int64_t file, unsigned char *rgb)
{
    return self->cache ? psgd__image_cache_read(self->cache, file, rgb)
                       : psgd__jpeg_read(decoder->jpeg, self->files.file[file].path, self->height, self->width, rgb);
}

/* Sample number index, or the first after it that can be read. */
static psgd_status read_sample(image_source *self, image_decoder *decoder, int64_t index, unsigned char *rgb,
                               float *label)
{
    for (int64_t i = 0; i < TRIES && i < self->base.count; i++) {
        int64_t file = self->kept[(index + i) % self->base.count];
        psgd_status status = read_image(self, decoder, file, rgb);
        *label = (float)self->files.file[file].label;
        if (status != PSGD_ERR_IO && status != PSGD_ERR_FORMAT) return status;
        mark_bad(self, file);
    }
    return psgd__fail(PSGD_ERR_FORMAT, "too many images in a row cannot be read; the first: %s", self->base.first_bad);
}

/* The place of a crop of size in a side: 0 .. room, or a shift by an eighth where there is no room. */
static int64_t draw_place(const rng_stream *stream, uint64_t i, int64_t side, int64_t size)
{
    int64_t min = side > size ? 0 : -size / 8, max = side > size ? side - size : size / 8;
    return min + (int64_t)psgd__rng_below(stream, i, (uint64_t)(max - min + 1));
}

static image_place place_of(const image_source *self, int64_t index, bool announced, uint64_t seed, uint64_t epoch)
{
    int64_t h = self->base.sample[1], w = self->base.sample[2];
    image_place place = {(self->height - h) / 2, (self->width - w) / 2, false};
    if (!announced || !self->train) return place;
    rng_stream stream = psgd__rng_stream(seed, RNG_DATA, (uint64_t)index, epoch);
    if (self->random_crop) {
        place.top = draw_place(&stream, 0, self->height, h);
        place.left = draw_place(&stream, 1, self->width, w);
    }
    place.mirrored = self->mirror && psgd__rng_below(&stream, 2, 2);
    return place;
}

static int64_t clamped(int64_t i, int64_t size)
{
    return i < 0 ? 0 : i >= size ? size - 1 : i;
}

/* Where pixel (row, column) of the crop is in [height, width]; beyond an edge it is the pixel at the edge. */
static inline int64_t pixel_at(const image_source *self, const image_place *place, int64_t row, int64_t column)
{
    if (place->mirrored) column = self->base.sample[2] - 1 - column;
    return clamped(place->top + row, self->height) * self->width + clamped(place->left + column, self->width);
}

static psgd_status make_item(void *data, void *decoder_data, int64_t index, bool announced, uint64_t seed,
                             uint64_t epoch, unsigned char *pixels, float *label, image_place *place)
{
    image_source *self = data;
    image_decoder *decoder = decoder_data;
    if (self->whole) {
        psgd_status status = read_image(self, decoder, index, pixels);
        *label = status == PSGD_OK;
        return status == PSGD_ERR_IO || status == PSGD_ERR_FORMAT ? PSGD_OK : status;
    }
    PSGD_TRY(read_sample(self, decoder, index, decoder->rgb, label));
    *place = place_of(self, index, announced, seed, epoch);
    int64_t h = self->base.sample[1], w = self->base.sample[2];
    for (int64_t row = 0; row < h; row++) {
        for (int64_t column = 0; column < w; column++) {
            const unsigned char *from = decoder->rgb + 3 * pixel_at(self, place, row, column);
            for (int c = 0; c < 3; c++) pixels[(c * h + row) * w + column] = from[c];
        }
    }
    return PSGD_OK;
}

static psgd_status start_queue(image_source *self, bool whole, int64_t threads)
{
    image_work work = {.data = self, .open = decoder_open, .close = decoder_close, .make = make_item};
    self->whole = whole;
    int64_t bytes = whole ? 3 * self->height * self->width : self->base.features;
    return psgd__image_queue_create(self->base.context, &work, threads, bytes, &self->queue);
}

static void end_queue(image_source *self)
{
    psgd__image_queue_free(self->queue);
    self->queue = NULL;
}

/* From images one after the other to x [features, n]. */
typedef struct turning {
    const image_source *self;
    const image_batch *batch;
    int64_t n;
    float *x;
} turning;

static void turn_block(void *data, int64_t block)
{
    const turning *t = data;
    const image_source *self = t->self;
    int64_t w = self->base.sample[2], area = self->base.sample[1] * w, features = self->base.features, n = t->n;
    int64_t end = (block + 1) * BLOCK < features ? (block + 1) * BLOCK : features;
    bool moves = self->train && (self->random_crop || self->mirror);
    for (int64_t f = block * BLOCK; f < end; f++) {
        int64_t c = f / area, row = f % area / w, column = f % w;
        const unsigned char *from = t->batch->pixels + f;
        float *x = t->x + f * n;
        if (!self->mean) {
            for (int64_t j = 0; j < n; j++) x[j] = (float)from[j * features] / 255;
            continue;
        }
        float mean = self->mean[3 * pixel_at(self, &t->batch->place[0], row, column) + c];
        for (int64_t j = 0; j < n; j++) {
            if (moves) mean = self->mean[3 * pixel_at(self, &t->batch->place[j], row, column) + c];
            x[j] = (float)from[j * features] - mean;
        }
    }
}

static psgd_status images_read(source *base, int64_t n, const int64_t *index, float *x, float *y)
{
    image_source *self = (image_source *)base;
    image_batch batch;
    double began = psgd__seconds();
    PSGD_TRY(psgd__image_queue_take(self->queue, n, index, &batch));
    base->waited += psgd__seconds() - began;
    psgd_parallel((base->features + BLOCK - 1) / BLOCK, turn_block, &(turning){self, &batch, n, x});
    memcpy(y, batch.label, (size_t)n * sizeof *y);
    return PSGD_OK;
}

static void images_announce(source *base, int64_t n, const int64_t *index, uint64_t seed, uint64_t epoch)
{
    psgd__image_queue_announce(((image_source *)base)->queue, n, index, seed, epoch);
}

static void images_close(source *base)
{
    image_source *self = (image_source *)base;
    end_queue(self);
    psgd__image_cache_close(self->cache);
    psgd__image_files_free(&self->files);
    psgd__free(base->context, self->kept);
    psgd__free(base->context, self->mean);
    psgd__free(base->context, self->bad);
    pthread_mutex_destroy(&self->lock);
    psgd__free(base->context, self);
}

/* Numbers from .. from + count - 1 times stride of a list, whole images. */
static psgd_status take_stretch(image_source *self, const int64_t *list, int64_t from, int64_t count, int64_t stride,
                                image_batch *batch)
{
    int64_t index[CACHE_AT_ONCE];
    for (int64_t i = 0; i < count; i++) index[i] = list ? list[(from + i) * stride] : from + i;
    return psgd__image_queue_take(self->queue, count, index, batch);
}

static psgd_status write_cache(image_source *self, const char *path)
{
    file_writer file;
    int64_t bytes = 3 * self->height * self->width;
    PSGD_TRY(psgd__image_cache_create(self->base.context, path, &self->files, self->height, self->width, &file));
    psgd_status status = PSGD_OK;
    for (int64_t at = 0; status == PSGD_OK && at < self->files.count; at += CACHE_AT_ONCE) {
        int64_t n = self->files.count - at < CACHE_AT_ONCE ? self->files.count - at : CACHE_AT_ONCE;
        image_batch batch;
        status = take_stretch(self, NULL, at, n, 1, &batch);
        for (int64_t i = 0; status == PSGD_OK && i < n; i++) {
            bool readable = batch.label[i] > 0;
            status = psgd__image_cache_add(&file, self->height, self->width,
                                           readable ? batch.pixels + i * bytes : NULL);
        }
    }
    if (status == PSGD_OK) return psgd__file_publish(&file);
    psgd__file_abandon(&file);
    return status;
}

static psgd_status use_cache(image_source *self, const char *path, int64_t threads)
{
    if (access(path, F_OK) != 0) {
        PSGD_TRY(start_queue(self, true, threads));
        psgd_status status = write_cache(self, path);
        end_queue(self);
        PSGD_TRY(status);
    }
    return psgd__image_cache_open(self->base.context, path, &self->files, self->height, self->width, &self->cache);
}

/* Every stride-th sample, at most MEAN_OF. Sums of bytes are exact, so threads do not change the mean. */
static psgd_status sum_images(image_source *self, int64_t *sum, int64_t *seen)
{
    int64_t stride = (self->base.count + MEAN_OF - 1) / MEAN_OF, count = (self->base.count + stride - 1) / stride;
    int64_t size = 3 * self->height * self->width;
    for (int64_t at = 0; at < count; at += CACHE_AT_ONCE) {
        int64_t n = count - at < CACHE_AT_ONCE ? count - at : CACHE_AT_ONCE;
        image_batch batch;
        PSGD_TRY(take_stretch(self, self->kept, at, n, stride, &batch));
        for (int64_t i = 0; i < n; i++) {
            if (!(batch.label[i] > 0)) continue;
            (*seen)++;
            for (int64_t k = 0; k < size; k++) sum[k] += batch.pixels[i * size + k];
        }
    }
    return PSGD_OK;
}

/* The mean of the training split, which the test split takes over. */
static psgd_status make_mean(image_source *self, const image_source *training, int64_t threads)
{
    const psgd_context *context = self->base.context;
    int64_t size = 3 * self->height * self->width, seen = 0;
    int64_t *sum = psgd__alloc(context, size, sizeof *sum);
    self->mean = psgd__alloc(context, size, sizeof *self->mean);
    psgd_status status = sum && self->mean ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the mean image");
    if (status == PSGD_OK && training) {
        memcpy(self->mean, training->mean, (size_t)size * sizeof *self->mean);
    } else if (status == PSGD_OK) {
        status = start_queue(self, true, threads);
        if (status == PSGD_OK) status = sum_images(self, sum, &seen);
        end_queue(self);
        if (status == PSGD_OK && seen == 0) status = psgd__fail(PSGD_ERR_FORMAT, "none of the images can be read");
        for (int64_t k = 0; seen && k < size; k++) self->mean[k] = (float)((double)sum[k] / (double)seen);
    }
    psgd__free(context, sum);
    return status;
}

/* folder/train or folder/test or folder/val where there are such, else folder itself, of which a share is held out. */
static psgd_status fill(image_source *self, const char *folder, const source_settings *settings)
{
    char train[PATH_LONGEST], test[PATH_LONGEST];
    bool apart = psgd__path_in(train, folder, "train") && psgd__is_folder(train);
    if (apart && !self->train) {
        if (!psgd__path_in(test, folder, "test") && !psgd__path_in(test, folder, "val")) {
            return psgd__fail(PSGD_ERR_IO, "%s has train, but neither test nor val", folder);
        }
        const image_source *training = (const image_source *)settings->training;
        if (training && (settings->truth || !psgd__has_folders(test))) {
            PSGD_TRY(psgd__image_files_read_flat(&self->files, &training->files, folder, test, settings->truth));
        } else {
            PSGD_TRY(psgd__image_files_read(&self->files, test));
            if (training) PSGD_TRY(psgd__image_files_match(&self->files, &training->files));
        }
    } else {
        PSGD_TRY(psgd__image_files_read(&self->files, apart ? train : folder));
    }
    self->base.classes = self->files.classes;
    self->kept = psgd__alloc(self->base.context, self->files.count, sizeof *self->kept);
    self->bad = psgd__alloc(self->base.context, self->files.count, sizeof *self->bad);
    if (!self->kept || !self->bad) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of images");
    source_split split = self->train ? SPLIT_TRAIN : SPLIT_TEST;
    double share = apart ? (self->train ? 0 : 1) : settings->holdout;
    self->base.count = psgd__source_hold_out(settings->seed, share, split, self->files.count, self->kept);
    if (self->base.count > 0) return PSGD_OK;
    return psgd__fail(
        PSGD_ERR_ARGUMENT, "%s: holding out a share of %g of %lld images leaves none to %s; another --holdout may help",
        folder, settings->holdout, (long long)self->files.count, split == SPLIT_TEST ? "test" : "train on");
}

static psgd_status prepare(image_source *self, const char *folder, const source_settings *settings)
{
    int64_t h = self->base.sample[1], w = self->base.sample[2], cores = (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
    int64_t threads = settings->threads > 0 ? settings->threads : cores > 3 ? cores / 2 : 1;
    if (settings->resize > 0 && (settings->resize < h || settings->resize < w)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "resize is %lld: it cannot be less than the crop of %lld x %lld",
                          (long long)settings->resize, (long long)h, (long long)w);
    }
    self->height = settings->resize > 0 ? settings->resize : h;
    self->width = settings->resize > 0 ? settings->resize : w;
    PSGD_TRY(fill(self, folder, settings));
    if (settings->cache) {
        char path[4096];
        snprintf(path, sizeof path, "%s.%s", settings->cache, self->train ? "train" : "test");
        PSGD_TRY(use_cache(self, path, threads));
    }
    if (settings->subtract_mean) {
        PSGD_TRY(make_mean(self, (const image_source *)settings->training, cores > 1 ? cores - 1 : 1));
    }
    return start_queue(self, false, threads);
}

static psgd_status images_open(const source_request *request, source **opened)
{
    const psgd_context *context = request->context;
    const source_settings *settings = request->settings;
    image_source *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the source images");
    int64_t height = settings->height ? settings->height : 32, width = settings->width ? settings->width : 32;
    self->base = (source){.context = context,
                          .ndim = 3,
                          .sample = {3, height, width},
                          .features = 3 * height * width,
                          .read = images_read,
                          .announce = images_announce,
                          .close = images_close};
    self->files.context = context;
    self->random_crop = settings->random_crop;
    self->mirror = settings->mirror;
    self->train = request->split == SPLIT_TRAIN;
    pthread_mutex_init(&self->lock, NULL);
    psgd_status status = prepare(self, request->argument, settings);
    if (status != PSGD_OK) {
        images_close(&self->base);
        return status;
    }
    *opened = &self->base;
    return PSGD_OK;
}

const source_kind psgd__source_images = {
    .name = "images",
    .argument = "DIR",
    .summary = "JPEGs in class folders, DIR/train/CLASS/*.jpg and DIR/test/.., or DIR/CLASS/..",
    .open = images_open,
};
