/* Threads of the library: one pool per process, shared by all objects.
 *
 * The pool starts at its first use. Its size is that of psgd_set_threads, else PSGD_NUM_THREADS, else OMP_NUM_THREADS,
 * else the number of cores that the process may run on. Results do not depend on it. One thread of the program uses the
 * pool at a time; a call from another thread in the meantime runs on that thread alone. The child of a fork has a pool
 * of its own. Workers of an optimizer with the option delay have pools of their own too; the default size leaves a core
 * for each of their threads. */
#ifndef PSGD_THREADS_H
#define PSGD_THREADS_H

#include <psgd/status.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the number of threads, the caller's included, from the next call on; 0: the default. */
psgd_status psgd_set_threads(int threads);

int psgd_threads(void); /* that a call from here would use; 1 inside a part of psgd_parallel */

/* Calls part(data, i) for i < count, each once, in any order, on the threads of the pool. */
void psgd_parallel(int64_t count, void (*part)(void *data, int64_t i), void *data);

#ifdef __cplusplus
}
#endif

#endif
