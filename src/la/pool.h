/* The thread pool: all parallel work of the library goes through la_parallel and la_tasks.
 *
 * Work is cut into parts whose sizes do not depend on the number of threads, and free threads take the next part, so
 * that results have the same bits on any number of them. Idle threads spin for some microseconds and then sleep; the
 * caller takes parts too and never waits for a thread that holds none. */
#ifndef PSGD_LA_POOL_H
#define PSGD_LA_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define la_parallel psgd__la_parallel
#define la_chunks   psgd__la_chunks
#define la_tasks    psgd__la_tasks
#define la_threads  psgd__la_threads

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

int la_threads(void); /* that la_parallel would use now: 1 inside a part */

#endif
