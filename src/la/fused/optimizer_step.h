/* Steps of optimizers that are one pass over memory: x <- keep x - rate d, with d made on the way. */
#ifndef PSGD_LA_FUSED_OPTIMIZER_STEP_H
#define PSGD_LA_FUSED_OPTIMIZER_STEP_H

#include "core/dtype.h"
#include "la/kernel/kernel.h"

#define la_step_plain    PSGD_TYPED(psgd__la_step_plain)
#define la_step_momentum PSGD_TYPED(psgd__la_step_momentum)
#define la_step_adam     PSGD_TYPED(psgd__la_step_adam)
#define la_step_rms      PSGD_TYPED(psgd__la_step_rms)
#define la_step_divide   PSGD_TYPED(psgd__la_step_divide)
#define la_root_mean     PSGD_TYPED(psgd__la_root_mean)
#define la_clamp         PSGD_TYPED(psgd__la_clamp)

/* g stands for g + l2 x below; out <- keep x - rate d; out may be x. */
void la_step_plain(int64_t n, const step_rule *r, const real *g, const real *x, real *out); /* d = g */
/* u <- decay1 u + gain1 g; d = u, or gain1 g + decay1 u where r->ahead */
void la_step_momentum(int64_t n, const step_rule *r, const real *g, real *u, const real *x, real *out);
/* s <- sqrt(decay2 s^2 + gain2 g^2); d = correct1 g / (correct2 s + epsilon) */
void la_step_rms(int64_t n, const step_rule *r, const real *g, real *s, const real *x, real *out);
/* and with u for g in d, u as above */
void la_step_adam(int64_t n, const step_rule *r, const real *g, real *u, real *s, const real *x, real *out);

/* with s as it is */
void la_step_divide(int64_t n, const step_rule *r, const real *g, const real *s, const real *x, real *out);

void la_root_mean(int64_t n, double decay, double gain, const real *h, real *s); /* s <- sqrt(decay s^2 + gain h^2) */
void la_clamp(int64_t n, real limit, real *x);                                   /* x <- min(max(x, -limit), limit) */

#endif
