/* Steps of optimizers that are one pass over memory: x <- keep x - rate d, with d made on the way. */
#ifndef PSGD_LA_FUSED_OPTIMIZER_STEP_H
#define PSGD_LA_FUSED_OPTIMIZER_STEP_H

#include "core/dtype.h"
#include "la/kernel/kernel.h"

#define la_step        PSGD_TYPED(psgd__la_step)
#define la_step_divide PSGD_TYPED(psgd__la_step_divide)
#define la_root_mean   PSGD_TYPED(psgd__la_root_mean)
#define la_clamp       PSGD_TYPED(psgd__la_clamp)
#define la_scale_to    PSGD_TYPED(psgd__la_scale_to)

/* g stands for g + l2 x below; out <- keep x - rate d; out may be x. With u and s both NULL d = g, else
 *   u <- decay1 u + gain1 g; d = u, or gain1 g + decay1 u where r->ahead
 *   s <- sqrt(decay2 s^2 + gain2 g^2); d = correct1 g / (correct2 s + epsilon), or with u as well u for g in d;
 *   where r->inside, sqrt((correct2 s)^2 + epsilon^2) stands for correct2 s + epsilon */
void la_step(int64_t n, const step_rule *r, const real *g, real *u, real *s, const real *x, real *out);

/* with s as it is */
void la_step_divide(int64_t n, const step_rule *r, const real *g, const real *s, const real *x, real *out);

void la_root_mean(int64_t n, double decay, double gain, const real *h, real *s); /* s <- sqrt(decay s^2 + gain h^2) */
void la_clamp(int64_t n, real limit, real *x);                                   /* x <- min(max(x, -limit), limit) */
void la_scale_to(int64_t n, double c, const real *x, real *y); /* y <- c x, c beyond f32's range too */

#endif
