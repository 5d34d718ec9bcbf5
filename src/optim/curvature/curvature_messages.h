/* What both sides of a message must know of it. */
#ifndef PSGD_OPTIM_CURVATURE_CURVATURE_MESSAGES_H
#define PSGD_OPTIM_CURVATURE_CURVATURE_MESSAGES_H

#include "optim/curvature.h"
#include "optim/method/method.h"

#define curvature_product       PSGD_TYPED(psgd__curvature_product)
#define curvature_lane_bytes    PSGD_TYPED(psgd__curvature_lane_bytes)
#define curvature_request_bytes PSGD_TYPED(psgd__curvature_request_bytes)
#define curvature_reply_bytes   PSGD_TYPED(psgd__curvature_reply_bytes)
#define curvature_clear         PSGD_TYPED(psgd__curvature_clear)

/* The product of the workers, on a curvature rank: this rank's share by the caller, and its sum. */
int curvature_product(void *data, int slot, int worker, const void *const *theta, const void *const *v, void *const *h);

/* Bytes: of the Q of a lane; of what data rank d sends in a request; of the reply to it, with asked of each lane. */
int64_t curvature_lane_bytes(const optim_async *async, int lane);
int64_t curvature_request_bytes(const optim_curvature *c, int d);
int64_t curvature_reply_bytes(const optim_async *async, int d, const int *slot);

/* Messages of a place, none for anybody yet. */
void curvature_clear(optim_curvature *c, int place);

#endif
