#include "comm/background.h"
#include "core/clock.h"

#include <pthread.h>
#include <stdio.h>

enum { SENTENCE = 512 };

struct background {
    const psgd_context *context;
    psgd_comm *comm;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    comm_job *jobs; /* [room] */
    int room, count, done;
    bool closing;
    psgd_status status;
    char sentence[SENTENCE];
    double seconds, waited;
};

psgd_status psgd__comm_run(psgd_comm *comm, const comm_job *job)
{
    PSGD_TRY(psgd_comm_sum_to(comm, job->dtype, job->counts, job->x));
    return job->count > 0 ? psgd_comm_sum(comm, job->dtype, job->count, job->shared) : PSGD_OK;
}

/* Called with the lock, which is released while the job runs. After a failure the remaining jobs are skipped, since the
 * ranks no longer match. */
static void run_next(background *self)
{
    comm_job job = self->jobs[self->done];
    bool failed = self->status != PSGD_OK;
    double began = psgd__seconds();
    pthread_mutex_unlock(&self->lock);
    psgd_status status = failed ? PSGD_OK : psgd__comm_run(self->comm, &job);
    pthread_mutex_lock(&self->lock);
    self->seconds += psgd__seconds() - began;
    self->done++;
    if (status != PSGD_OK) {
        self->status = status;
        snprintf(self->sentence, sizeof self->sentence, "%s", psgd_last_error());
    }
    pthread_cond_broadcast(&self->changed);
}

static void *run_thread(void *data)
{
    background *self = data;
    pthread_mutex_lock(&self->lock);
    while (!self->closing) {
        if (self->done < self->count) {
            run_next(self);
        } else {
            pthread_cond_wait(&self->changed, &self->lock);
        }
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

psgd_status psgd__background_create(psgd_comm *comm, int room, background **created)
{
    *created = NULL;
    if (!comm->ops->any_thread || comm->size == 1) return PSGD_OK;
    background *self = psgd__alloc(comm->context, 1, sizeof *self);
    comm_job *jobs = psgd__alloc(comm->context, room, sizeof *jobs);
    if (self && jobs) {
        *self = (background){.context = comm->context, .comm = comm, .jobs = jobs, .room = room, .status = PSGD_OK};
        pthread_mutex_init(&self->lock, NULL);
        pthread_cond_init(&self->changed, NULL);
        if (pthread_create(&self->thread, NULL, run_thread, self) == 0) {
            *created = self;
            return PSGD_OK;
        }
        pthread_mutex_destroy(&self->lock);
        pthread_cond_destroy(&self->changed);
    }
    psgd__free(comm->context, jobs);
    psgd__free(comm->context, self);
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a thread that sums over ranks");
}

void psgd__background_free(background *self)
{
    if (!self) return;
    const psgd_context *context = self->context;
    pthread_mutex_lock(&self->lock);
    self->closing = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->changed);
    psgd__free(context, self->jobs);
    psgd__free(context, self);
}

void psgd__background_add(background *self, const comm_job *job)
{
    pthread_mutex_lock(&self->lock);
    self->jobs[self->count++] = *job;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

psgd_status psgd__background_join(background *self)
{
    double began = psgd__seconds();
    pthread_mutex_lock(&self->lock);
    while (self->done < self->count) pthread_cond_wait(&self->changed, &self->lock);
    psgd_status status = self->status;
    self->count = self->done = 0;
    self->status = PSGD_OK;
    self->waited += psgd__seconds() - began;
    pthread_mutex_unlock(&self->lock);
    return status == PSGD_OK ? PSGD_OK : psgd__fail(status, "%s", self->sentence);
}

void psgd__background_times(const background *self, double *seconds, double *waited)
{
    *seconds = self ? self->seconds : 0;
    *waited = self ? self->waited : 0;
}
