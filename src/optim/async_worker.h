/* The worker threads of asynchronous fits. */
#ifndef PSGD_OPTIM_ASYNC_WORKER_H
#define PSGD_OPTIM_ASYNC_WORKER_H

#include "optim/async.h"

psgd_status psgd__async_start_workers(optim_async *async);
void psgd__async_join_workers(optim_async *async); /* ends them and their pools */
void psgd__async_stop_workers(optim_async *async); /* and frees the rest; also where none were started */

/* In the child of a fork, which has no workers: starts them, with what they had left to do. */
psgd_status psgd__async_survive(optim_async *async);

#endif
