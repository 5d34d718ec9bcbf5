/* Curvature ranks (psgd_optimizer_bind_curvature): the workers of asynchronous fits as ranks of their own.
 *
 * Of all ranks the last ones are curvature ranks. Data ranks have the Q in force and step with it. At a step that has
 * pairs they send a request: theta, which pairs, what the caller keeps for the product and, where v takes the Q in
 * force, v. Curvature ranks evaluate the product, fit their copy of Q and reply with it at once; data ranks take the
 * reply at the step at which it is due. Curvature ranks share the work as ranks of any optimizer do: each has a share
 * of the product and owns some of the preconditioners.
 *
 * Request n and reply n have a place each, n modulo 2: data ranks fill a request while the one before it travels, and
 * curvature ranks fit while the reply before travels. Neither side waits for the other with both of its places taken:
 * data ranks take the oldest reply before they ask for more than CURVATURE_UNDER_WAY. */
#ifndef PSGD_OPTIM_CURVATURE_H
#define PSGD_OPTIM_CURVATURE_H

#include "comm/comm.h"
#include <psgd/optim.h>

enum { CURVATURE_PLACES = 2, CURVATURE_UNDER_WAY = 4 };

/* A request is what data rank 0 sends: this, a request_lane for each lane, an int64_t for each tensor (whether it is
 * present), lists of rows, theta, v, and what it keeps. Other data ranks send only what they keep. */
typedef struct request_head {
    int64_t end; /* 1: there are no more requests, and nothing else of this one counts */
    int64_t step, drawn;
    uint64_t seed;
} request_head;

typedef struct request_lane {
    int64_t asked, steps, rows; /* asked: it has a pair; rows: how many, -1: all */
    double rate;
} request_lane;

/* A reply: this, an int64_t for each lane (whether it was fitted), and the Q of each lane that was asked for and that
 * the data rank holds. */
typedef struct reply_head {
    int64_t failure, code, part;
} reply_head;

typedef struct optim_curvature {
    psgd_comm *all;
    int data_ranks;
    bool serves, ended; /* this is a curvature rank; there will be no more requests */
    psgd_curvature bound;
    int64_t at_lanes, at_present, at_rows, at_theta, at_v, at_kept; /* bytes: places in a request */
    int64_t *kept;                                                  /* [data ranks] bytes that each of them keeps */
    int64_t *codes;                                                 /* [ranks] of a product, on curvature ranks */
    double *fitted;                                                 /* [lanes] on how many of them */
    char *holds;                                                    /* [data ranks][lanes] */
    const void **kept_list;                                         /* [data ranks] of the request being served */
    char *request[CURVATURE_PLACES], *reply[CURVATURE_PLACES];
    char *lane; /* the Q of one lane */
    int64_t asked, taken;
    psgd_status status; /* of messages within a product */
    void *memory;
} optim_curvature;

#endif
