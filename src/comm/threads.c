/* Ranks as threads of one process: a message is a copy from one rank's memory to another's.
 *
 * In every slot a rank posts where its messages are. In wait it copies its own from the posts of the same turn, and
 * then waits until the others have copied theirs, so that the memory may be reused. Ranks that have no message for each
 * other do not wait for each other. */
#include "comm/comm.h"
#include "core/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SENTENCE = 512 };

typedef struct post {
    const psgd_message *out, *in;
    int64_t turn; /* exchanges of this slot so far */
    int left;     /* messages of this turn that have not been taken */
    double began;
} post;

typedef struct house {
    const psgd_context *context;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int size, users;
    bool stopped;
    char sentence[SENTENCE];
    post *posts; /* [size][slots] */
} house;

typedef struct thread_rank {
    house *house;
    int rank;
    double seconds, per_byte; /* delay */
    double free_at;           /* with a delay: when the link is free of earlier messages */
} thread_rank;

static post *post_of(house *h, int rank, int slot)
{
    return &h->posts[rank * PSGD_COMM_SLOTS + slot];
}

static psgd_status threads_exchange(void *data, int slot, const psgd_message *out, const psgd_message *in)
{
    thread_rank *self = data;
    house *h = self->house;
    pthread_mutex_lock(&h->lock);
    post *own = post_of(h, self->rank, slot);
    own->out = out;
    own->in = in;
    own->left = 0;
    for (int r = 0; r < h->size; r++) own->left += r != self->rank && out[r].bytes > 0;
    own->turn++;
    own->began = psgd__seconds();
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return PSGD_OK;
}

/* Until the condition holds, with the lock; false where another rank has stopped. */
#define AWAIT(h, condition)                                                                                            \
    while (!(condition) && !(h)->stopped) pthread_cond_wait(&(h)->changed, &(h)->lock)

static psgd_status take(thread_rank *self, int slot, int from)
{
    house *h = self->house;
    post *own = post_of(h, self->rank, slot), *theirs = post_of(h, from, slot);
    psgd_message out = {0}, in = own->in[from];
    if (in.bytes == 0) return PSGD_OK;
    pthread_mutex_lock(&h->lock);
    AWAIT(h, theirs->turn >= own->turn);
    bool stopped = h->stopped;
    if (!stopped && theirs->turn == own->turn) out = theirs->out[self->rank];
    pthread_mutex_unlock(&h->lock);
    if (stopped) return psgd__fail(PSGD_ERR_RANK, "%s", h->sentence);
    if (out.bytes != in.bytes) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "rank %d sends %lld bytes and rank %d expects %lld: ranks must make the "
                          "same calls in the same order",
                          from, (long long)out.bytes, self->rank, (long long)in.bytes);
    }
    memcpy(in.data, out.data, (size_t)in.bytes);
    pthread_mutex_lock(&h->lock);
    theirs->left--;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return PSGD_OK;
}

/* What is left of the time that the exchange would take. Latencies of several exchanges pass together, bytes go one
 * after the other. */
static void delay(thread_rank *self, const post *own)
{
    double bytes = 0;
    if (self->seconds <= 0 && self->per_byte <= 0) return;
    for (int r = 0; r < self->house->size; r++) bytes += r == self->rank ? 0 : (double)own->in[r].bytes;
    double from = own->began > self->free_at ? own->began : self->free_at;
    self->free_at = from + bytes * self->per_byte;
    double left = self->free_at + self->seconds - psgd__seconds();
    if (!(left > 0)) return;
    struct timespec time = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    nanosleep(&time, NULL);
}

static psgd_status threads_wait(void *data, int slot)
{
    thread_rank *self = data;
    house *h = self->house;
    for (int k = 1; k < h->size; k++) PSGD_TRY(take(self, slot, (self->rank + k) % h->size));
    post *own = post_of(h, self->rank, slot);
    pthread_mutex_lock(&h->lock);
    AWAIT(h, own->left == 0);
    bool stopped = h->stopped;
    pthread_mutex_unlock(&h->lock);
    if (stopped) return psgd__fail(PSGD_ERR_RANK, "%s", h->sentence);
    delay(self, own);
    return PSGD_OK;
}

static void threads_stop(void *data, const char *sentence)
{
    thread_rank *self = data;
    house *h = self->house;
    pthread_mutex_lock(&h->lock);
    if (!h->stopped) snprintf(h->sentence, sizeof h->sentence, "rank %d: %s", self->rank, sentence);
    h->stopped = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void free_house(house *h)
{
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->changed);
    psgd__free(h->context, h->posts);
    psgd__free(h->context, h);
}

/* The last rank frees what all share. */
static void threads_free(void *data)
{
    thread_rank *self = data;
    house *h = self->house;
    const psgd_context *context = h->context;
    pthread_mutex_lock(&h->lock);
    bool last = --h->users == 0;
    pthread_mutex_unlock(&h->lock);
    if (last) free_house(h);
    psgd__free(context, self);
}

const psgd_comm_ops psgd__comm_threads = {
    .exchange = threads_exchange,
    .wait = threads_wait,
    .stop = threads_stop,
    .free = threads_free,
    .any_thread = 1,
};

static house *build_house(const psgd_context *context, int size)
{
    house *h = psgd__alloc(context, 1, sizeof *h);
    post *posts = psgd__alloc(context, (int64_t)size * PSGD_COMM_SLOTS, sizeof *posts);
    if (!h || !posts) {
        psgd__free(context, h);
        psgd__free(context, posts);
        return NULL;
    }
    h->context = context;
    h->size = size;
    h->posts = posts;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    return h;
}

psgd_status psgd_comm_threads(const psgd_context *context, int size, psgd_comm **comms)
{
    if (!comms || size < 1) return psgd__fail(PSGD_ERR_ARGUMENT, "a comm of threads needs at least one, and a list");
    for (int r = 0; r < size; r++) comms[r] = NULL;
    house *h = build_house(context, size);
    psgd_status status = h ? PSGD_OK : PSGD_ERR_NO_MEMORY;
    for (int r = 0; r < size && status == PSGD_OK; r++) {
        thread_rank *self = psgd__alloc(context, 1, sizeof *self);
        if (!self) {
            if (r == 0) free_house(h);
            status = PSGD_ERR_NO_MEMORY;
            break;
        }
        *self = (thread_rank){.house = h, .rank = r};
        pthread_mutex_lock(&h->lock);
        h->users++;
        pthread_mutex_unlock(&h->lock);
        status = psgd_comm_create(context, r, size, &psgd__comm_threads, self, &comms[r]);
    }
    if (status == PSGD_OK) return PSGD_OK;
    for (int r = 0; r < size; r++) {
        psgd_comm_free(comms[r]);
        comms[r] = NULL;
    }
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a comm of %d threads", size);
}

psgd_status psgd_comm_delay(psgd_comm *comm, double seconds, double bytes_per_second)
{
    if (!comm || comm->ops != &psgd__comm_threads || !(seconds >= 0) || !(bytes_per_second >= 0)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a delay is for a comm of threads, and must not be negative");
    }
    thread_rank *self = comm->data;
    self->seconds = seconds;
    self->per_byte = bytes_per_second > 0 ? 1 / bytes_per_second : 0;
    return PSGD_OK;
}
