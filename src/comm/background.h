/* Sums over ranks on a thread of their own, one after the other, while the caller computes. Only where what carries the
 * messages may be used by another thread than the caller's (psgd_comm_ops.any_thread), and the caller makes no other
 * call of the comm before it has joined. */
#ifndef PSGD_COMM_BACKGROUND_H
#define PSGD_COMM_BACKGROUND_H

#include "comm/comm.h"

/* x: a segment for each rank, counts[r] elements long, summed to it; then count elements at shared, summed to all. */
typedef struct comm_job {
    psgd_dtype dtype;
    const int64_t *counts;
    void *x;
    int64_t count;
    void *shared;
} comm_job;

typedef struct background background;

psgd_status psgd__comm_run(psgd_comm *comm, const comm_job *job); /* now, on this thread */

/* room: jobs between two joins, at most. *created is NULL where the comm cannot. */
psgd_status psgd__background_create(psgd_comm *comm, int room, background **created);
void psgd__background_free(background *self); /* after the job under way */
void psgd__background_add(background *self, const comm_job *job);

/* Waits until all jobs are done. Returns the first failure, whose message is then psgd_last_error. */
psgd_status psgd__background_join(background *self);

/* Seconds that jobs have taken so far, and that joins have waited for them. */
void psgd__background_times(const background *self, double *seconds, double *waited);

#endif
