/* Tasks that may run at the same time, for layers that must not know about threads. */
#ifndef PSGD_LA_PARALLEL_H
#define PSGD_LA_PARALLEL_H

#include <stdint.h>

#define la_parallel psgd__la_parallel

/* Calls task(data, i) for i < count, each once, in any order; on one thread where work, the number of operations in
 * all, is too little to share. */
void la_parallel(int64_t count, double work, void (*task)(void *data, int64_t i), void *data);

#endif
