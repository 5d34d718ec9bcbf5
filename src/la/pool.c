/* One caller at a time owns the shared pool; a thread that finds it taken runs its parts alone. A background thread has
 * a pool of its own.
 *
 * A job is a list of parts, cut into ranges: thread k begins with range k, so that it finds in its cache what it had in
 * the job before, and then helps with the others. A range is one atomic word, generation << 32 | parts left. Taking
 * parts lowers it atomically; the generation keeps a job that is over from being mistaken for the next, and a thread
 * that holds no part may sleep through the end of a job. */
#include "la/pool.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/workspace.h"

#include <psgd/threads.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE = 64,
    MAX_THREADS = 256,
    MAX_RANGES = 16,
    STACK = 2 << 20,
    SPIN = 50000,     /* nanoseconds that an idle thread spins before it sleeps */
    PREEMPTED = 50000 /* nanoseconds between two looks at the clock that only another process can have taken */
};

static const double BATCH_WORK = 2e4; /* operations that are taken at once */
static const double ENOUGH_WORK = 1e9;

typedef struct range {
    _Alignas(LINE) _Atomic uint64_t left;
} range;

typedef struct job {
    range ranges[MAX_RANGES];
    _Alignas(LINE) _Atomic int64_t done; /* parts */
    _Alignas(LINE) _Atomic int range_count, max_threads;
    _Atomic int64_t batch; /* parts that are taken at once */
    int64_t count;
    void (*part)(void *data, int64_t i);
    void *data;
} job;

enum { OUTER, INNER }; /* INNER: what a heavy task of la_tasks shares out */

typedef struct member {
    la_pool *pool;
    int index;
} member;

struct la_pool {
    job jobs[2];
    _Alignas(LINE) _Atomic uint32_t epoch; /* raised whenever there is something new for the workers */
    _Alignas(LINE) _Atomic bool taken;
    _Atomic bool waiting; /* the owner sleeps until its job is done */
    _Atomic int sleepers, size, quit_from;
    _Atomic int64_t crowded_until; /* nanoseconds; until then nobody spins, because other processes want the cores */
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    uint32_t generation;
    int asked, workers; /* threads requested; workers that could be started for them */
    int owner_cpu;      /* that the workers are kept off; -1: not known */
    cpu_set_t cpus;     /* of the thread that started the workers */
    pthread_t worker[MAX_THREADS];
    member members[MAX_THREADS];

    /* Of a pool that one background thread has to itself. */
    const psgd_context *context;
    pthread_t thread;
    void (*run)(void *data);
    void *data;
};

static la_pool shared = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER};
static _Atomic int standard;   /* the default size of the shared pool, see default_threads; 0: not known yet */
static _Atomic int background; /* threads of pools that are not shared */

static _Thread_local la_pool *own;     /* NULL: the shared one */
static _Thread_local int thread_index; /* 0: a thread of the program */
static _Thread_local enum { FREE, IN_PART, IN_HEAVY_TASK } state;

static la_pool *current(void)
{
    return own ? own : &shared;
}

static int64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

/* Spins until there is a reason to stop, but not for long. A thread that was preempted meanwhile has proof that the
 * cores are wanted by others: for a while nobody spins. */
static bool spin(bool (*stop)(const void *data), const void *data)
{
    la_pool *pool = current();
    int64_t begin = nanoseconds(), last = begin, now;
    if (begin < atomic_load_explicit(&pool->crowded_until, memory_order_relaxed)) return stop(data);
    do {
        for (int i = 0; i < 8; i++) {
            if (stop(data)) return true;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        now = nanoseconds();
        if (now - last > PREEMPTED) {
            atomic_store_explicit(&pool->crowded_until, now + 200 * (int64_t)PREEMPTED, memory_order_relaxed);
            break;
        }
        last = now;
    } while (now - begin < SPIN);
    return stop(data);
}

/* Runs parts of a range until none are left. Returns how many; *count <- the parts of the whole job. */
static int64_t empty_range(job *j, int r, int64_t *count)
{
    int64_t done = 0;
    _Atomic uint64_t *left = &j->ranges[r].left;
    uint64_t word = atomic_load_explicit(left, memory_order_acquire);
    while ((uint32_t)word) {
        int64_t batch = atomic_load_explicit(&j->batch, memory_order_relaxed);
        if (batch > (uint32_t)word) batch = (uint32_t)word;
        if (!atomic_compare_exchange_weak_explicit(left, &word, word - (uint64_t)batch, memory_order_acq_rel,
                                                   memory_order_acquire)) {
            continue;
        }
        *count = j->count; /* fields that are not atomic stay as they are until this part is done */
        int64_t i = *count * (r + 1) / atomic_load_explicit(&j->range_count, memory_order_relaxed) - (uint32_t)word;
        for (int64_t end = i + batch; i < end; i++) j->part(j->data, i);
        done += batch;
        word = atomic_load_explicit(left, memory_order_acquire);
    }
    return done;
}

static void work_on(job *j)
{
    la_pool *pool = current();
    int64_t done = 0, count = 0;
    int ranges = atomic_load_explicit(&j->range_count, memory_order_acquire);
    if (thread_index >= atomic_load_explicit(&j->max_threads, memory_order_relaxed)) return;
    for (int k = 0; k < ranges; k++) done += empty_range(j, (thread_index + k) % ranges, &count);
    if (!done || atomic_fetch_add(&j->done, done) + done < count || !atomic_load(&pool->waiting)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->finished);
    pthread_mutex_unlock(&pool->lock);
}

static bool has_news(const void *seen)
{
    return atomic_load(&current()->epoch) != *(const uint32_t *)seen;
}

static void *run_worker(void *data)
{
    const member *self = data;
    uint32_t seen = 0;
    la_pool *pool = own = self->pool;
    thread_index = self->index;
    state = IN_PART;
    for (;;) {
        if (!spin(has_news, &seen)) {
            pthread_mutex_lock(&pool->lock);
            atomic_fetch_add(&pool->sleepers, 1);
            while (!has_news(&seen)) pthread_cond_wait(&pool->wake, &pool->lock);
            atomic_fetch_sub(&pool->sleepers, 1);
            pthread_mutex_unlock(&pool->lock);
        }
        seen = atomic_load(&pool->epoch);
        if (thread_index > atomic_load(&pool->quit_from)) return NULL;
        work_on(&pool->jobs[OUTER]);
        work_on(&pool->jobs[INNER]);
    }
}

/* Linux tends to wake a thread on the core of the waking thread, where it then waits for the end of the job. */
static void make_room_for_owner(la_pool *pool)
{
    int cpu = sched_getcpu();
    if (cpu < 0 || cpu == pool->owner_cpu || CPU_COUNT(&pool->cpus) <= pool->workers) return;
    cpu_set_t others = pool->cpus;
    CPU_CLR(cpu, &others);
    for (int i = 0; i < pool->workers; i++) pthread_setaffinity_np(pool->worker[i], sizeof others, &others);
    pool->owner_cpu = cpu;
}

static void wake_workers(la_pool *pool, int64_t count)
{
    atomic_fetch_add(&pool->epoch, 1);
    int sleepers = atomic_load(&pool->sleepers);
    if (sleepers == 0) return;
    make_room_for_owner(pool);
    pthread_mutex_lock(&pool->lock);
    if (count < sleepers) {
        while (count-- > 0) pthread_cond_signal(&pool->wake);
    } else {
        pthread_cond_broadcast(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void begin_job(job *j, int64_t count, int64_t batch, int max_threads, void (*part)(void *data, int64_t i),
                      void *data)
{
    la_pool *pool = current();
    int64_t ranges = pool->workers + 1;
    if (ranges > MAX_RANGES) ranges = MAX_RANGES;
    if (ranges > count) ranges = count;
    j->count = count;
    j->part = part;
    j->data = data;
    atomic_store_explicit(&j->done, 0, memory_order_relaxed);
    atomic_store_explicit(&j->batch, batch, memory_order_relaxed);
    atomic_store_explicit(&j->max_threads, max_threads, memory_order_relaxed);
    atomic_store_explicit(&j->range_count, (int)ranges, memory_order_release);
    pool->generation++;
    for (int64_t r = 0; r < ranges; r++) {
        uint64_t left = (uint64_t)(count * (r + 1) / ranges - count * r / ranges);
        atomic_store_explicit(&j->ranges[r].left, (uint64_t)pool->generation << 32 | left, memory_order_release);
    }
    wake_workers(pool, count - 1);
}

static bool is_done(const void *data)
{
    const job *j = data;
    return atomic_load(&j->done) == j->count;
}

static void finish_job(job *j)
{
    la_pool *pool = current();
    work_on(j);
    if (spin(is_done, j)) return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->waiting, true);
    while (!is_done(j)) pthread_cond_wait(&pool->finished, &pool->lock);
    atomic_store(&pool->waiting, false);
    pthread_mutex_unlock(&pool->lock);
}

/* The child of a fork has none of the workers. */
static void forget_workers(la_pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->finished, NULL);
    pool->asked = pool->workers = 0;
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->waiting, false);
    atomic_store(&pool->taken, false);
    for (int i = 0; i < MAX_RANGES; i++) {
        atomic_store(&pool->jobs[OUTER].ranges[i].left, 0);
        atomic_store(&pool->jobs[INNER].ranges[i].left, 0);
    }
}

static void forget_shared(void)
{
    forget_workers(&shared);
}

static void stop_workers(la_pool *pool, int keep)
{
    if (pool->workers <= keep) return;
    atomic_store(&pool->quit_from, keep);
    wake_workers(pool, pool->workers);
    while (pool->workers > keep) pthread_join(pool->worker[--pool->workers], NULL);
}

/* It inherits a mask that blocks all signals: handlers run on threads of the program. */
static bool start_thread(pthread_t *thread, void *(*run)(void *data), void *data)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_setstacksize(&attributes, STACK);
    bool started = pthread_create(thread, &attributes, run, data) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* Brings the pool to that many threads, or as many as can be started. */
static void resize(la_pool *pool, int threads)
{
    static bool child_handler_set;
    if (!child_handler_set && pool == &shared) child_handler_set = pthread_atfork(NULL, NULL, forget_shared) == 0;
    stop_workers(pool, threads - 1);
    pool->asked = threads;
    pool->owner_cpu = -1;
    if (sched_getaffinity(0, sizeof pool->cpus, &pool->cpus) != 0) CPU_ZERO(&pool->cpus);
    atomic_store(&pool->quit_from, MAX_THREADS);
    if (!child_handler_set && pool == &shared) return;
    while (pool->workers < threads - 1) {
        member *next = &pool->members[pool->workers];
        *next = (member){pool, pool->workers + 1};
        if (!start_thread(&pool->worker[pool->workers], run_worker, next)) break;
        pool->workers++;
    }
}

/* Whether the pool is the caller's now and has workers. */
static bool take_pool(void)
{
    la_pool *pool = current();
    int threads = la_threads();
    if (threads < 2 || atomic_exchange(&pool->taken, true)) return false;
    if (threads != pool->asked) resize(pool, threads);
    if (pool->workers > 0) return true;
    atomic_store(&pool->taken, false);
    return false;
}

/* At exit and when the library is unloaded. The pool stays taken: later calls run alone. If another thread is using it,
 * the workers are left as they are. */
__attribute__((destructor)) static void stop_pool(void)
{
    if (!atomic_exchange(&shared.taken, true)) stop_workers(&shared, 0);
}

static void *run_background(void *data)
{
    own = data;
    own->run(own->data);
    return NULL;
}

la_pool *la_pool_create(const psgd_context *context, int threads)
{
    la_pool *pool = psgd__alloc(context, 1, sizeof *pool);
    if (!pool) return NULL;
    pool->context = context;
    forget_workers(pool);
    atomic_store(&pool->size, threads);
    atomic_fetch_add(&background, threads);
    return pool;
}

bool la_pool_start(la_pool *pool, void (*run)(void *data), void *data)
{
    pool->run = run;
    pool->data = data;
    return start_thread(&pool->thread, run_background, pool);
}

void la_pool_join(la_pool *pool)
{
    pthread_join(pool->thread, NULL);
    stop_workers(pool, 0);
}

void la_pool_forget(la_pool *pool)
{
    forget_workers(pool);
}

void la_pool_free(la_pool *pool)
{
    if (!pool) return;
    atomic_fetch_sub(&background, atomic_load(&pool->size));
    psgd__free(pool->context, pool);
}

void la_parallel(int64_t count, double work, void (*part)(void *data, int64_t i), void *data)
{
    la_pool *pool = current();
    bool worth = count > 1 && count <= UINT32_MAX && work > LA_MIN_WORK, inner = state == IN_HEAVY_TASK;
    if (!worth || (!inner && !take_pool())) {
        for (int64_t i = 0; i < count; i++) part(data, i);
        return;
    }
    job *j = &pool->jobs[inner ? INNER : OUTER];
    double each = work / (double)count;
    int64_t batch = each < BATCH_WORK ? (int64_t)(BATCH_WORK / each) : 1, max = count / (4 * (pool->workers + 1));
    if (batch > max) batch = max;
    state = IN_PART;
    begin_job(j, count, batch < 1 ? 1 : batch, MAX_THREADS, part, data);
    finish_job(j);
    state = inner ? IN_HEAVY_TASK : FREE;
    if (!inner) atomic_store_explicit(&pool->taken, false, memory_order_release);
}

typedef struct chunks {
    int64_t n, chunk;
    void (*body)(const void *data, int64_t from, int64_t count);
    const void *data;
} chunks;

static void run_chunk(void *data, int64_t i)
{
    const chunks *c = data;
    int64_t from = i * c->chunk, left = c->n - from;
    c->body(c->data, from, left < c->chunk ? left : c->chunk);
}

void la_chunks(int64_t n, int64_t chunk, int64_t alone, void (*body)(const void *data, int64_t from, int64_t count),
               const void *data)
{
    if (n <= alone) {
        body(data, 0, n);
        return;
    }
    chunks c = {n, chunk, body, data};
    la_parallel((n + chunk - 1) / chunk, ENOUGH_WORK, run_chunk, &c);
}

typedef struct tasks {
    bool (*heavy)(void *data, int i);
    void (*task)(void *data, int i);
    void *data;
} tasks;

static void run_light(void *data, int64_t i)
{
    const tasks *t = data;
    if (t->heavy(t->data, (int)i)) return;
    psgd__work_slice = thread_index;
    t->task(t->data, (int)i);
    psgd__work_slice = 0;
}

void la_tasks(int count, int max_threads, bool (*heavy)(void *data, int i), void (*task)(void *data, int i), void *data)
{
    la_pool *pool = current();
    if (count < 2 || max_threads < 2 || !take_pool()) {
        for (int i = 0; i < count; i++) task(data, i);
        return;
    }
    tasks t = {heavy, task, data};
    state = IN_HEAVY_TASK;
    begin_job(&pool->jobs[OUTER], count, 1, max_threads, run_light, &t);
    for (int i = 0; i < count; i++) {
        if (heavy(data, i)) task(data, i);
    }
    state = IN_PART;
    finish_job(&pool->jobs[OUTER]);
    state = FREE;
    atomic_store_explicit(&pool->taken, false, memory_order_release);
}

static int number_in(const char *name)
{
    const char *text = getenv(name);
    long value = text ? strtol(text, NULL, 10) : 0;
    return value < 1 ? 0 : value > MAX_THREADS ? MAX_THREADS : (int)value;
}

/* What the environment asks for, negative; else the number of cores. */
static int default_threads(void)
{
    cpu_set_t set;
    int threads = number_in("PSGD_NUM_THREADS");
    if (!threads) threads = number_in("OMP_NUM_THREADS");
    if (threads) return -threads;
    if (sched_getaffinity(0, sizeof set, &set) == 0) threads = CPU_COUNT(&set);
    if (!threads) threads = (int)sysconf(_SC_NPROCESSORS_ONLN); /* more cores than the set above can hold */
    return threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
}

/* The default leaves one core for each background thread. */
int la_threads(void)
{
    if (state == IN_PART) return 1;
    int size = atomic_load_explicit(&current()->size, memory_order_relaxed);
    if (size > 0) return size;
    size = atomic_load_explicit(&standard, memory_order_relaxed);
    if (size == 0) {
        size = default_threads();
        atomic_store_explicit(&standard, size, memory_order_relaxed);
    }
    if (size < 0) return -size;
    size -= atomic_load_explicit(&background, memory_order_relaxed);
    return size < 1 ? 1 : size;
}

psgd_status psgd_set_threads(int threads)
{
    if (threads < 0 || threads > MAX_THREADS) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%d threads: between 1 and %d, or 0 for the default", threads,
                          MAX_THREADS);
    }
    atomic_store(&standard, 0);
    atomic_store(&shared.size, threads);
    return PSGD_OK;
}

int psgd_threads(void)
{
    return la_threads();
}

void psgd_parallel(int64_t count, void (*part)(void *data, int64_t i), void *data)
{
    la_parallel(count, ENOUGH_WORK, part, data);
}
