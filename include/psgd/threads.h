/* Threads of the library: one pool per process, shared by all objects.
 *
 * The pool starts at its first use. Its size is that of psgd_set_threads, else PSGD_NUM_THREADS, else OMP_NUM_THREADS,
 * else the number of cores that the process may run on. Results do not depend on it. One thread of the program uses
 * the pool at a time; another that calls the library meanwhile does its work alone. A child that a process forks has
 * a pool of its own. Workers of an optimizer with the option delay have pools of their own too; the default size leaves
 * a core for each of their threads. */
#ifndef PSGD_THREADS_H
#define PSGD_THREADS_H

#include <psgd/status.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From the next call on, work is shared out to that many threads, the caller's included; 0: the default. */
psgd_status psgd_set_threads(int threads);

int psgd_threads(void); /* that a call from here would use: 1 inside a part */

/* Calls part(data, i) for i < count, each once, in any order, on the threads of the pool. */
void psgd_parallel(int64_t count, void (*part)(void *data, int64_t i), void *data);

#ifdef __cplusplus
}
#endif

#endif
