/* Ranks that work together: one process each over MPI (psgd/mpi.h, libpsgd-mpi), or threads of one process.
 *
 * Every rank has a psgd_comm, and calls marked "all ranks" are made by all of them in the same order, with arguments
 * that agree. Sums are taken here and never by the transport, as ((0 + 1) + (2 + 3)) + .., one binary tree over the
 * ranks, so they have the same bits over any transport. NULL stands for a single rank everywhere.
 *
 * Where a call fails on one rank alone, the others would wait for it forever: psgd_comm_agree reports the failure to
 * all of them, and psgd_comm_stop ends their work. */
#ifndef PSGD_COMM_H
#define PSGD_COMM_H

#include <stdint.h>

#include <psgd/context.h>
#include <psgd/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct psgd_comm psgd_comm;

/* The transport. To use another than MPI and threads, fill this table. */
enum { PSGD_COMM_SLOTS = 4 };

typedef struct psgd_message {
    void *data;
    int64_t bytes;
} psgd_message;

typedef struct psgd_comm_ops {
    /* All ranks. Starts to send out[r] to rank r and to receive in[r] from it, for every r but this rank; 0 bytes: no
     * message. Both lists are the caller's and last until wait returns. Up to PSGD_COMM_SLOTS exchanges may be under
     * way, each in a slot of its own; those of one slot never overlap. */
    psgd_status (*exchange)(void *data, int slot, const psgd_message *out, const psgd_message *in);
    psgd_status (*wait)(void *data, int slot);      /* until everything of that exchange is sent and received */
    void (*stop)(void *data, const char *sentence); /* ends the work of all ranks; may not return */
    void (*free)(void *data);
    int any_thread; /* 1: exchange and wait may be called from any thread, one at a time, so that sums may overlap the
                       backward pass (psgd_optimizer_ready) */
    /* May be NULL. Between exchange and wait: lets messages under way proceed, without waiting for them. For transports
     * that make progress only inside their calls. */
    void (*poll)(void *data, int slot);
} psgd_comm_ops;

/* A comm over a table of your own, which must outlive it; stop and free may be NULL. psgd_comm_free passes data to
 * psgd_comm_ops.free, and so does this call where it fails. */
psgd_status psgd_comm_create(const psgd_context *context, int rank, int size, const psgd_comm_ops *ops, void *data,
                             psgd_comm **comm);
void psgd_comm_free(psgd_comm *comm);

/* For the functions of such a table: sets psgd_last_error and returns status. */
psgd_status psgd_comm_fail(psgd_status status, const char *sentence);

/* Ranks as threads of this process: comms[r] is for the thread of rank r. A message is a copy from one rank's memory to
 * another's. Each comm is freed separately. */
psgd_status psgd_comm_threads(const psgd_context *context, int size, psgd_comm **comms);

/* With threads only: every exchange then takes at least seconds + bytes received / bytes_per_second, as over a slower
 * network. 0 seconds and 0 bytes_per_second: no delay. Before the first exchange. */
psgd_status psgd_comm_delay(psgd_comm *comm, double seconds, double bytes_per_second);

int psgd_comm_rank(const psgd_comm *comm);
int psgd_comm_size(const psgd_comm *comm);
int64_t psgd_comm_sent(const psgd_comm *comm); /* bytes that this rank has sent so far */

/* All ranks. x (count elements) <- the sum over the ranks, on every rank. Each rank sends and receives
 * 2 (size - 1) / size of x. */
psgd_status psgd_comm_sum(psgd_comm *comm, psgd_dtype dtype, int64_t count, void *x);

/* All ranks. x has a segment for each rank, counts[r] elements long, one after the other. sum_to: the segment of this
 * rank <- its sum over the ranks; the other segments are undefined afterwards. share: every rank's own segment to all
 * others; elements have any size, in bytes. */
psgd_status psgd_comm_sum_to(psgd_comm *comm, psgd_dtype dtype, const int64_t *counts, void *x);
psgd_status psgd_comm_share(psgd_comm *comm, int64_t element, const int64_t *counts, void *x);

/* All ranks. broadcast: bytes from the rank root to all others. barrier: returns when all ranks have called it. */
psgd_status psgd_comm_broadcast(psgd_comm *comm, int root, int64_t bytes, void *x);
psgd_status psgd_comm_barrier(psgd_comm *comm);

/* All ranks. PSGD_OK where every rank passes PSGD_OK; else, on every rank, the status of the lowest rank that does not,
 * and its psgd_last_error after "rank 3: ". */
psgd_status psgd_comm_agree(psgd_comm *comm, psgd_status status);

/* Any rank, at any time: ends the work of all of them. With threads the others' calls fail with PSGD_ERR_RANK and "rank
 * 3: " before this sentence; with MPI the processes end, so print the reason first. */
void psgd_comm_stop(psgd_comm *comm, const char *sentence);

/* Shares out work: owners[i] <- the rank of a piece of work of cost[i], the costliest first, each to the rank with the
 * smallest load so far; -1, every rank, where the cost is not above 0. The same list on every rank. */
void psgd_comm_owners(int ranks, int count, const double *cost, int *owners);

/* The order of a sum in which equal counts give equal bits on any number of ranks. Terms 0, 1, .., count - 1, those of
 * rank r from r count / size on; count / size must be a power of two where size is not 1. psgd_tree_add adds term i
 * (from 0, of this rank) to partial sums: part[k] holds 2^k terms, and psgd_tree_depth(count of this rank) of them are
 * needed, elements long each; term is overwritten. After the last one psgd_tree_end leaves the sum of all in part[0].
 */
int psgd_tree_depth(int64_t count);
void psgd_tree_add(psgd_dtype dtype, int64_t elements, int64_t i, void *term, void *const *part);
void psgd_tree_end(psgd_dtype dtype, int64_t elements, int64_t count, void *const *part);

#ifdef __cplusplus
}
#endif
#endif
