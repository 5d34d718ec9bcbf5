/* The planner: chooses a group for each tensor, the richest ones that a budget of memory and time allows.
 *
 * A group is richer than another if it reaches more matrices P = Q'Q, so dense is not richer than tri. Every tensor
 * starts with the poorest group; while the budget lasts, the upgrade that adds the fewest bytes is taken, of whichever
 * tensor. The result is deterministic. A factor of a kron may be triangular up to a side of max-factor; otherwise it is
 * diagonal, and the last one, that of the inputs, norm. Inputs get no triangle where their side is above 300 and above
 * the product of all other sides; with the criterion fisher neither do outputs under the same condition, nor outputs of
 * more than 128 next to such inputs. Vectors, such as biases, get diag, or tri if they are short. The default budget is
 * four times the bytes of the parameters, and at least 64 KB.
 *
 * The spec "auto" is what the planner chooses for a single tensor with default options. */
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

/* Tensor i has the shape shapes[i][0..ndim[i]-1]. options may be NULL; psgd_plan_option lists them. */
psgd_status psgd_plan_create(const psgd_context *context, int count, const int *ndim, const int64_t *const *shapes,
                             psgd_dtype dtype, const psgd_options *options, psgd_plan **plan);
void psgd_plan_free(psgd_plan *plan);

/* The options, from 0 (psgd/options.h). */
int psgd_plan_option(int index, psgd_option_info *option);

/* The spec chosen for a tensor and its cost; the next richer spec and its cost, NULL and 0 where there is none. Strings
 * live as long as the plan. */
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
