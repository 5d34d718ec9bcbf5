/* Two requests at most: the one that is being used or made, and the next. Threads take items from the older first.
 * Which thread makes an item has no influence on it. */
#include "data/image/image_queue.h"
#include "core/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { REQUESTS = 2, MAX_THREADS = 64 };

typedef struct request {
    int64_t n, room, begun, ended; /* items */
    int64_t *index;
    unsigned char *pixels;
    float *label;
    image_place *place;
    bool announced;
    uint64_t seed, epoch, age; /* age: in the order of requests; 0: free */
    psgd_status status;
    char sentence[256];
} request;

struct image_queue {
    const psgd_context *context;
    image_work work;
    int64_t bytes;
    request requests[REQUESTS];
    uint64_t ages;
    void *decoder; /* of the thread that takes */
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    bool stop;
    int64_t threads;
    pthread_t thread[MAX_THREADS];
};

/* The oldest request with an item that nobody has begun, or NULL. */
static request *next_request(image_queue *self)
{
    request *oldest = NULL;
    for (int i = 0; i < REQUESTS; i++) {
        request *r = &self->requests[i];
        if (r->age && r->begun < r->n && (!oldest || r->age < oldest->age)) oldest = r;
    }
    return oldest;
}

/* Makes one item of the request. Called and left with the lock held, which is released in between. */
static void make_item(image_queue *self, request *r, void *decoder)
{
    int64_t item = r->begun++;
    pthread_mutex_unlock(&self->lock);
    psgd_status status = self->work.make(self->work.data, decoder, r->index[item], r->announced, r->seed, r->epoch,
                                         r->pixels + item * self->bytes, &r->label[item], &r->place[item]);
    pthread_mutex_lock(&self->lock);
    if (status != PSGD_OK && r->status == PSGD_OK) {
        r->status = status;
        snprintf(r->sentence, sizeof r->sentence, "%.255s", psgd_last_error());
    }
    if (++r->ended == r->begun) pthread_cond_broadcast(&self->done);
}

static void *run_thread(void *data)
{
    image_queue *self = data;
    void *decoder = NULL;
    bool ready = self->work.open(self->work.data, &decoder) == PSGD_OK;
    pthread_mutex_lock(&self->lock);
    while (ready && !self->stop) {
        request *r = next_request(self);
        if (r) {
            make_item(self, r, decoder);
        } else {
            pthread_cond_wait(&self->more, &self->lock);
        }
    }
    pthread_mutex_unlock(&self->lock);
    if (ready) self->work.close(decoder);
    return NULL;
}

psgd_status psgd__image_queue_create(const psgd_context *context, const image_work *work, int64_t threads,
                                     int64_t bytes, image_queue **created)
{
    image_queue *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the queue of images");
    *self = (image_queue){.context = context, .work = *work, .bytes = bytes};
    psgd_status status = work->open(work->data, &self->decoder);
    if (status != PSGD_OK) {
        psgd__free(context, self);
        return status;
    }
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->more, NULL);
    pthread_cond_init(&self->done, NULL);
    /* With fewer threads than asked for, or none, the reader does more itself. */
    while (self->threads < threads && self->threads < MAX_THREADS &&
           pthread_create(&self->thread[self->threads], NULL, run_thread, self) == 0) {
        self->threads++;
    }
    *created = self;
    return PSGD_OK;
}

static void free_request(const image_queue *self, request *r)
{
    void *const blocks[] = {r->index, r->pixels, r->label, r->place};
    for (int i = 0; i < 4; i++) psgd__free(self->context, blocks[i]);
    *r = (request){0};
}

void psgd__image_queue_free(image_queue *self)
{
    if (!self) return;
    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_cond_broadcast(&self->more);
    pthread_mutex_unlock(&self->lock);
    for (int64_t i = 0; i < self->threads; i++) pthread_join(self->thread[i], NULL);
    for (int i = 0; i < REQUESTS; i++) free_request(self, &self->requests[i]);
    self->work.close(self->decoder);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->more);
    pthread_cond_destroy(&self->done);
    psgd__free(self->context, self);
}

/* No further item of it is begun; waits for those that were. */
static void give_up(image_queue *self, request *r)
{
    r->n = r->begun;
    while (r->ended < r->begun) pthread_cond_wait(&self->done, &self->lock);
    r->age = 0;
}

static bool make_room(image_queue *self, request *r, int64_t n)
{
    if (n <= r->room) return true;
    free_request(self, r);
    r->index = psgd__alloc(self->context, n, sizeof *r->index);
    r->pixels = psgd__alloc(self->context, n, (size_t)self->bytes);
    r->label = psgd__alloc(self->context, n, sizeof *r->label);
    r->place = psgd__alloc(self->context, n, sizeof *r->place);
    if (r->index && r->pixels && r->label && r->place) {
        r->room = n;
        return true;
    }
    free_request(self, r);
    return false;
}

static bool begin(image_queue *self, request *r, int64_t n, const int64_t *index)
{
    if (!make_room(self, r, n)) return false;
    memcpy(r->index, index, (size_t)n * sizeof *index);
    r->n = n;
    r->begun = r->ended = 0;
    r->announced = false;
    r->seed = r->epoch = 0;
    r->status = PSGD_OK;
    r->age = ++self->ages;
    return true;
}

static request *find(image_queue *self, int64_t n, const int64_t *index)
{
    for (int i = 0; i < REQUESTS; i++) {
        request *r = &self->requests[i];
        if (r->age && r->n == n && !memcmp(r->index, index, (size_t)n * sizeof *index)) return r;
    }
    return NULL;
}

void psgd__image_queue_announce(image_queue *self, int64_t n, const int64_t *index, uint64_t seed, uint64_t epoch)
{
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < REQUESTS && !find(self, n, index); i++) {
        request *r = &self->requests[i];
        if (r->age || !begin(self, r, n, index)) continue;
        r->announced = true;
        r->seed = seed;
        r->epoch = epoch;
        pthread_cond_broadcast(&self->more);
    }
    pthread_mutex_unlock(&self->lock);
}

psgd_status psgd__image_queue_take(image_queue *self, int64_t n, const int64_t *index, image_batch *batch)
{
    pthread_mutex_lock(&self->lock);
    request *r = find(self, n, index);
    if (!r) { /* the announced samples are not the requested ones */
        for (int i = 0; i < REQUESTS; i++) {
            if (self->requests[i].age) give_up(self, &self->requests[i]);
        }
        r = &self->requests[0];
        if (!begin(self, r, n, index)) {
            pthread_mutex_unlock(&self->lock);
            return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld images", (long long)n);
        }
        pthread_cond_broadcast(&self->more);
    }
    while (r->begun < r->n) make_item(self, r, self->decoder);
    while (r->ended < r->n) pthread_cond_wait(&self->done, &self->lock);
    *batch = (image_batch){r->pixels, r->label, r->place};
    psgd_status status = r->status;
    r->age = 0;
    pthread_mutex_unlock(&self->lock);
    return status == PSGD_OK ? PSGD_OK : psgd__fail(status, "%s", r->sentence);
}
