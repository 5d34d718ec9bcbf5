/* The planner: a group for each tensor, the richest that a budget allows.
 *
 * Richest is meant by the set of P = Q'Q that a group reaches, so dense does not count as richer than tri. Every tensor
 * starts with the poorest group, and as long as the budget allows the cheapest step to a richer one is taken: the same
 * answer every time. Modes of a kron get a triangle of at most max-factor; vectors, such as biases, get diag, or a
 * triangle where they are short.
 *
 * The spec "auto" stands for what the planner chooses for one tensor alone with its standard options. */
#ifndef PSGD_PLAN_H
#define PSGD_PLAN_H

#include <stdint.h>

#include <psgd/context.h>
#include <psgd/dtype.h>
#include <psgd/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct psgd_plan psgd_plan;

/* Options: budget (memory as a multiple of the parameters), bytes (or as bytes; 0: not so), time (flops of fit and step
 * as a share of gradient-flops; 0: any), gradient-flops, max-factor. options may be NULL. shapes[i] has ndim[i] sizes.
 */
psgd_status psgd_plan_create(const psgd_context *context, int count, const int *ndim, const int64_t *const *shapes,
                             psgd_dtype dtype, const psgd_options *options, psgd_plan **plan);
void psgd_plan_free(psgd_plan *plan);

/* The options, from 0 (psgd/options.h). */
int psgd_plan_option(int index, psgd_option_info *option);

/* Help for the options, a line each. Free it with psgd_text_free. */
psgd_status psgd_plan_options_text(const psgd_context *context, char **help);

/* For tensor i: the spec, what it costs, and the next richer one with its costs; NULL and 0 where there is none. */
const char *psgd_plan_spec(const psgd_plan *plan, int tensor);
int64_t psgd_plan_bytes(const psgd_plan *plan, int tensor);
double psgd_plan_flops(const psgd_plan *plan, int tensor); /* of one update and one apply */
const char *psgd_plan_next_spec(const psgd_plan *plan, int tensor);
int64_t psgd_plan_next_bytes(const psgd_plan *plan, int tensor);
double psgd_plan_next_flops(const psgd_plan *plan, int tensor);

int64_t psgd_plan_total_bytes(const psgd_plan *plan);
double psgd_plan_total_flops(const psgd_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
