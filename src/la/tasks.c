/* A crew is the threads of one call of psgd__side_by_side. Its first thread publishes a job as a ticket: the number of
 * the job, how many parts it has and how many are taken. Who takes a part raises that count in the ticket, so a job
 * that is over can not be mistaken for the next. */
#include "la/tasks.h"
#include "core/workspace.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct team {
    _Atomic uint64_t ticket; /* job << 32 | parts << 16 | taken */
    _Atomic int done, next, heavy_left;
    void (*part)(void *data, int i, int parts);
    void *data;
    int threads;
} team;

static _Thread_local team *own_team; /* of the thread that publishes jobs */

static void wait_a_little(int *spins)
{
    if (++*spins % 1024 == 0) {
        sched_yield(); /* whom this waits for may need this core */
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Takes one part of the job, if there is one left. */
static bool take_part(team *c)
{
    uint64_t ticket = atomic_load_explicit(&c->ticket, memory_order_acquire);
    int parts = (int)(ticket >> 16 & 0xffff), taken = (int)(ticket & 0xffff);
    if (taken >= parts) return false;
    if (!atomic_compare_exchange_strong_explicit(&c->ticket, &ticket, ticket + 1, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        return true; /* another was faster: look again */
    }
    c->part(c->data, taken, parts);
    atomic_fetch_add_explicit(&c->done, 1, memory_order_release);
    return true;
}

static void share_in_team(team *c, void (*part)(void *data, int i, int parts), void *data)
{
    uint64_t job = (atomic_load_explicit(&c->ticket, memory_order_relaxed) >> 32) + 1;
    int spins = 0;
    c->part = part;
    c->data = data;
    atomic_store_explicit(&c->done, 0, memory_order_relaxed);
    atomic_store_explicit(&c->ticket, job << 32 | (uint64_t)c->threads << 16, memory_order_release);
    while (take_part(c)) {
    }
    while (atomic_load_explicit(&c->done, memory_order_acquire) < c->threads) wait_a_little(&spins);
}

void psgd__share(bool worth, void (*part)(void *data, int i, int parts), void *data)
{
    if (worth && own_team) {
        share_in_team(own_team, part, data);
    } else if (worth && !omp_in_parallel()) {
#pragma omp parallel
        part(data, omp_get_thread_num(), omp_get_num_threads());
    } else {
        part(data, 0, 1);
    }
}

/* The first thread does what is heavy, one after the other; then all that is left is for whoever comes. */
static void work_in_team(team *c, int count, bool (*heavy)(void *data, int i), void (*task)(void *data, int i),
                         void *data)
{
    int i, spins = 0;
    psgd__work_slice = omp_get_thread_num();
    if (psgd__work_slice == 0) {
        own_team = c;
        for (i = 0; i < count; i++) {
            if (heavy(data, i)) task(data, i);
        }
        own_team = NULL;
        atomic_store_explicit(&c->heavy_left, 0, memory_order_release);
    }
    while ((i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < count) {
        if (!heavy(data, i)) task(data, i);
    }
    while (atomic_load_explicit(&c->heavy_left, memory_order_acquire)) {
        if (!take_part(c)) wait_a_little(&spins);
    }
    psgd__work_slice = 0;
}

void psgd__side_by_side(int count, int threads, bool (*heavy)(void *data, int i), void (*task)(void *data, int i),
                        void *data)
{
    if (threads < 2 || count < 2) {
        for (int i = 0; i < count; i++) task(data, i);
        return;
    }
    team c = {.heavy_left = 1};
#pragma omp parallel num_threads(threads)
    {
#pragma omp single
        c.threads = omp_get_num_threads();
        work_in_team(&c, count, heavy, task, data);
    }
}

int psgd__thread_count(void)
{
    return omp_in_parallel() ? 1 : omp_get_max_threads();
}
