/* Inside of a comm, for the files of this layer. */
#ifndef PSGD_COMM_COMM_H
#define PSGD_COMM_COMM_H

#include "core/memory.h"
#include "core/status.h"
#include <psgd/comm.h>

struct psgd_comm {
    const psgd_context *context;
    int rank, size;
    const psgd_comm_ops *ops;
    void *data;
    int64_t sent;
    psgd_message *out[PSGD_COMM_SLOTS], *in[PSGD_COMM_SLOTS]; /* [size] each, of the exchange under way */
    int64_t *counts;                                          /* [size] of a sum */
    char *scratch;                                            /* [2][size][CHUNK] */
};

/* All ranks. An exchange of the messages that the caller has put into out[slot] and in[slot]; it is over when finish
 * returns. Sums and shares use slots 0 and 1, and no exchange of the caller's may be under way in these then. */
psgd_status psgd__comm_start(psgd_comm *comm, int slot);
psgd_status psgd__comm_finish(psgd_comm *comm, int slot);
void psgd__comm_poll(psgd_comm *comm, int slot); /* between them: without waiting */

/* All ranks. bytes from one rank to another: x is where they are there, and where they go here; ignored elsewhere. */
psgd_status psgd__comm_send(psgd_comm *comm, int from, int to, int64_t bytes, void *x);

/* The table of threads, whose data is in threads.c. */
extern const psgd_comm_ops psgd__comm_threads;

#endif
