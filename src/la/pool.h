/* The thread pool: all parallel work of the library goes through la_parallel and la_tasks.
 *
 * Work is cut into parts whose sizes do not depend on the number of threads, and free threads take the next part, so
 * that results have the same bits on any number of them. Idle threads spin for some microseconds and then sleep; the
 * caller takes parts too and never waits for a thread that holds none. */
#ifndef PSGD_LA_POOL_H
#define PSGD_LA_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <psgd/context.h>

#define la_parallel psgd__la_parallel
#define la_chunks   psgd__la_chunks
#define la_tasks    psgd__la_tasks
#define la_threads  psgd__la_threads

#define la_pool_create psgd__la_pool_create
#define la_pool_start  psgd__la_pool_start
#define la_pool_join   psgd__la_pool_join
#define la_pool_forget psgd__la_pool_forget
#define la_pool_free   psgd__la_pool_free

#define LA_MIN_WORK 1e5 /* operations, about 10 microseconds of one thread: below that, waking another costs more */

/* Calls part(data, i) for i < count, each once, in any order; on the caller's thread alone where work, the number of
 * operations in all, is too little to share. Inside a part it runs on that part's thread. */
void la_parallel(int64_t count, double work, void (*part)(void *data, int64_t i), void *data);

/* Calls body(data, from, count) for stretches of chunk elements of n, the last one shorter; with all n at once where
 * they are at most alone. */
void la_chunks(int64_t n, int64_t chunk, int64_t alone, void (*body)(const void *data, int64_t from, int64_t count),
               const void *data);

/* Calls task(data, i) for i < count, on at most that many threads; each thread works in a slice of its own of any
 * workspace that has slices. The caller runs the heavy tasks, one after the other, and threads that have run out of
 * tasks help: they take parts of any la_parallel that a heavy task calls. */
void la_tasks(int count, int max_threads, bool (*heavy)(void *data, int i), void (*task)(void *data, int i),
              void *data);

/* A background thread, and a pool of that many threads that is its own: work that it shares out never waits for that of
 * the program. Where nothing has set the size of the shared pool, that leaves a core for each of these threads.
 *
 * start: runs run(data) on the thread; false where it cannot be started. join: after run has returned. forget: in the
 * child of a fork, which has none of these threads; start then works again. */
typedef struct la_pool la_pool;
la_pool *la_pool_create(const psgd_context *context, int threads); /* NULL: no memory */
bool la_pool_start(la_pool *pool, void (*run)(void *data), void *data);
void la_pool_join(la_pool *pool);
void la_pool_forget(la_pool *pool);
void la_pool_free(la_pool *pool); /* may be NULL; joined or forgotten before */

int la_threads(void); /* that la_parallel would use now: 1 inside a part */

#endif
