/* Asynchronous fits (option delay; paper, sections 4.4 and 7.4): on the step t of a pair the pair goes to a worker, and
 * the Q that it gives takes effect at step t + delay; steps in between use the Q before it.
 *
 * A lane is one preconditioner, that of a tensor or of all of them jointly. It has the Q in force, which only the
 * caller touches; a copy that only workers touch and fit, pair after pair; and a ring of slots, one for each pair in
 * flight, which keeps the Q after that pair until it is due. Whatever the timing, the same Q is in force at the same
 * step.
 *
 * A request is what one step asks of the workers: a product for all tensors, where a product is bound, and a fit of
 * each lane that is due. Products of different requests may run at the same time, fits are made in the order of the
 * steps.
 *
 * Workers are threads of this process or, with a curvature, ranks of their own (curvature.h). */
#ifndef PSGD_OPTIM_ASYNC_H
#define PSGD_OPTIM_ASYNC_H

#include <pthread.h>
#include <sys/types.h>

#include "core/workspace.h"
#include "la/pool.h"
#include "precond/precond.h"
#include <psgd/optim.h>

typedef enum async_failure { ASYNC_FINE, ASYNC_NOT_FINITE, ASYNC_CALLBACK } async_failure;

/* A pair in flight. */
typedef struct async_slot {
    psgd_precond *result; /* Q after this pair; NULL: another rank has it */
    char *v, *h;          /* [pairs][n] */
    int64_t *index;       /* of rows */
    psgd_rows rows;
    bool sparse;        /* v and h are those rows */
    bool drawn;         /* v is there: the caller has drawn it, as it takes the Q in force */
    int64_t steps;      /* the tensor's, which v is drawn from */
    int64_t step, due;  /* of the optimizer: of the pair, and at which its Q takes effect */
    double rate;        /* of the fit */
    bool done, fitted;  /* done is guarded by the lock */
    int failure;        /* enum async_failure, of the product */
    int64_t code, part; /* what it returned; the tensor that is not finite */
} async_slot;

typedef struct async_lane {
    psgd_precond *fit;       /* the workers' copy; NULL: another rank has it */
    psgd_precond **in_force; /* the caller's; NULL inside: another rank has this preconditioner */
    int64_t room;            /* elements of v and of h */
    async_slot *slots;
    int first, count; /* of the ring, those in flight */
    async_slot *open; /* of the pair of this step; NULL: there is none, or it is fitted at once */
    bool at_once;     /* no fit has taken effect yet: this pair is fitted in its own step */
} async_lane;

typedef enum async_stage { STAGE_QUEUED, STAGE_PRODUCT, STAGE_READY, STAGE_FIT } async_stage;

typedef struct async_request {
    int stage;         /* enum async_stage, guarded by the lock */
    int64_t step, due; /* due: of the first of its slots */
    uint64_t seed;
    int product;   /* the place of theta and of what the caller keeps; -1: the pairs are there */
    int *slot;     /* [lanes] -1: none */
    bool *present; /* [parts] */
} async_request;

/* The workers' copy of what they need of a tensor: the optimizer's own changes while a step runs. */
typedef struct async_part {
    int64_t n, from, width;
} async_part;

typedef struct async_worker {
    struct optim_async *async;
    la_pool *pool;
    int index;
    bool started;
    void **v, **h, **gradient; /* [parts] each, of one pair; the last for a bound objective */
} async_worker;

typedef struct optim_async {
    psgd_optimizer *self;
    int64_t delay;
    bool free; /* a Q takes effect as soon as it is there */
    int lane_count, slot_count, part_count, worker_count, request_count;
    async_lane *lanes;
    async_part *parts;
    async_worker *workers;
    void *arrays; /* of all slots */
    workspace work;
    /* The settings that workers read; they never change. */
    int64_t pairs, first_tensor;
    double l2;
    bool integrate, newton, joint;

    psgd_delayed_product product;      /* product NULL: the caller has the pairs */
    bool of_objective;                 /* it is the bound objective's */
    struct optim_curvature *curvature; /* NULL: workers are threads */
    void *copies;                      /* of theta and of the workers' arrays */
    void ***theta;                     /* [slot_count][parts] */
    bool *busy;                        /* [slot_count] guarded by the lock */
    void *const *caller_theta;         /* while a step runs: whole tensors */

    pthread_mutex_t lock;
    pthread_cond_t wake, changed; /* for workers: something to do or to quit; for the caller: something was done */
    pid_t process;                /* that the threads are in */
    struct optim_async *next;     /* of all that have workers */
    bool quit, fitting;
    async_request *requests; /* a ring */
    int *slot_lists;
    bool *present_lists;
    int first, count;
    async_request *open; /* of this step; not in the ring yet */
} optim_async;

/* Whether products are the workers'. */
static inline bool async_has_product(const optim_async *async)
{
    return async && async->product.product;
}

/* Before the preconditioners are created; lane, of those that are here: after one of them is, with what it was made of;
 * start: after all. */
psgd_status psgd__async_create(psgd_optimizer *self, int tensor_count);
psgd_status psgd__async_lane(psgd_optimizer *self, int lane, int ndim, const int64_t *shape,
                             const precond_settings *settings, const precond_segments *segments);
psgd_status psgd__async_start(psgd_optimizer *self);
void psgd__async_free(psgd_optimizer *self);

/* In the course of a step. begin: puts into effect what is due, and opens a request for the pairs of this step. Counts
 * a skipped step where a product that is due was not finite. post: hands the request over; drop: forgets it. */
psgd_status psgd__async_begin(psgd_optimizer *self, void *const *theta, const void *const *h);
void psgd__async_post(psgd_optimizer *self);
void psgd__async_drop(psgd_optimizer *self);

/* Before v is drawn with it, where products are the caller's: what is due at the coming step takes effect, unless that
 * step will report a failure. */
psgd_status psgd__async_publish(psgd_optimizer *self);

/* PSGD_ERR_NOT_FINITE where begin would skip the coming step. */
psgd_status psgd__async_check(psgd_optimizer *self);

/* After a fit at once: the workers resume from it. */
void psgd__async_follow(psgd_optimizer *self, int lane);

/* Waits until all requests are done. */
psgd_status psgd__async_drain(psgd_optimizer *self);

/* The pairs in flight as bytes, which follow the state of the preconditioner in force. */
int64_t psgd__async_bytes(const psgd_optimizer *self, int64_t precond_bytes);
psgd_status psgd__async_save(const psgd_optimizer *self, int lane, int64_t precond_bytes, char *bytes);
psgd_status psgd__async_load(psgd_optimizer *self, int lane, int64_t precond_bytes, const char *bytes);

/* The Q after the k-th pair in flight, NULL past the last; *at: where its state is, counted from that of the
 * preconditioner in force, or -1 where the pair was not fitted. */
const psgd_precond *psgd__async_in_flight(const psgd_optimizer *self, int lane, int k, int64_t precond_bytes,
                                          int64_t *at);

/* Sets what newton and fisher differ in, before the first step. */
void psgd__async_decide(psgd_optimizer *self);

/* v and h of every slot, and the list of their rows, in one block; on a curvature rank of one slot of each lane. */
psgd_status psgd__async_allocate(psgd_optimizer *self);

/* A product for the workers, and the memory that it needs. */
psgd_status psgd__async_set_product(psgd_optimizer *self, const psgd_delayed_product *product);

/* The objective's product is the workers'. */
psgd_status psgd__async_bind_objective(psgd_optimizer *self);

#endif
