/* Optimizers over a list of tensors: PSGD with a group for each tensor, its relatives in closed form, and what users
 * compare them with. psgd_method_name lists them.
 *
 * Two ways in. Step by step: the caller has a gradient (and, where psgd_optimizer_wants_product says so, a
 * Hessian-vector product for the v that psgd_optimizer_draw gives) and calls psgd_optimizer_step. Closure: bind an
 * objective once, then call psgd_optimizer_iterate.
 *
 * A list of arrays has one array a tensor, of the optimizer's number type, in C order. Only create, bind and load
 * allocate. On failure the parameters are as they were, and so is the optimizer but for its counters. */
#ifndef PSGD_OPTIM_H
#define PSGD_OPTIM_H

#include <stdint.h>

#include <psgd/context.h>
#include <psgd/dtype.h>
#include <psgd/options.h>
#include <psgd/precond.h>
#include <psgd/rows.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct psgd_optimizer psgd_optimizer;

/* One parameter tensor. spec is its group; NULL: the option group, and always so with the option joint. Only the method
 * psgd looks at it. rows is the most rows (of its first mode) that a gradient given to psgd_optimizer_step_rows has;
 * 0: gradients are whole. */
typedef struct psgd_tensor {
    const char *spec;
    int ndim;
    const int64_t *shape;
    int64_t rows;
} psgd_tensor;

/* The methods, from 0; NULL past the last. */
const char *psgd_method_name(int index);
const char *psgd_method_summary(int index);

/* options may be NULL: names are those of psgd_optimizer_options_text, which has those of psgd_precond_create in it.
 * Tensors, specs and options need not outlive the call. */
psgd_status psgd_optimizer_create(const psgd_context *context, const char *method, int tensor_count,
                                  const psgd_tensor *tensors, psgd_dtype dtype, const psgd_options *options,
                                  psgd_optimizer **optimizer);
void psgd_optimizer_free(psgd_optimizer *optimizer);

/* The options, from 0 (psgd/options.h), those of psgd_precond_create last; defaults are those of the method. method
 * NULL: of no method in particular, and options whose default depends on it have none. 0 also for an unknown method. */
int psgd_optimizer_option(const char *method, int index, psgd_option_info *option);

/* Help for the options, a line each. Free it with psgd_text_free. */
psgd_status psgd_optimizer_options_text(const psgd_context *context, char **help);

/* 1 where the coming step takes a Hessian-vector product, else 0. */
int psgd_optimizer_wants_product(const psgd_optimizer *optimizer);

/* The v of the coming step for a tensor: pairs (an option, 1 unless set) times its numbers, standard normal, a function
 * of the option seed, the step and the tensor alone (with joint: of where the tensor stands in the vector). */
psgd_status psgd_optimizer_draw(const psgd_optimizer *optimizer, int tensor, void *v);

/* One step: theta changes. v and h = Hv are read where psgd_optimizer_wants_product says 1, and may be NULL elsewhere;
 * v may also be the caller's own, (dtheta, dgradient) say.
 *
 * A gradient, v or h that is not finite makes the step a skipped one: nothing changes but counters, and the answer is
 * PSGD_OK until more than the option max-skipped come in a row; then it is PSGD_ERR_NOT_FINITE. */
psgd_status psgd_optimizer_step(psgd_optimizer *optimizer, void *const *theta, const void *const *gradient,
                                const void *const *v, const void *const *h);

/* One step with row-sparse gradients: rows[i] is NULL for a tensor whose arrays are whole, else its gradient, v and h
 * are [count, numbers of a row]. Rows that are absent keep their parameters and the method's state; the work is that of
 * the rows present. For sgd and adagrad that is the step that zeros in their place would make; sparse-adam leaves the
 * moments of absent rows as they are; psgd takes kron(diag,G), scan and scaw with the option rows (exact unless lazy is
 * asked for), without momentum. Clipping is joint over all that is there; clip-rms is over the rows present. Other
 * methods, and the options l2 and decay, would touch every row: they are refused when the optimizer is created.
 *
 * draw_rows: the rows of the v that psgd_optimizer_draw would give. */
psgd_status psgd_optimizer_step_rows(psgd_optimizer *optimizer, void *const *theta, const psgd_rows *const *rows,
                                     const void *const *gradient, const void *const *v, const void *const *h);
psgd_status psgd_optimizer_draw_rows(const psgd_optimizer *optimizer, int tensor, const psgd_rows *rows, void *v);

/* For kfac: count rows of activations (the inputs of a layer, as many as the tensor has columns) and of gradients with
 * respect to its outputs (as many as it has rows), to be used instead of gradients for this tensor. */
psgd_status psgd_optimizer_observe(psgd_optimizer *optimizer, int tensor, int64_t count, const void *activations,
                                   const void *output_gradients);

/* What a closure gives: loss and gradient at theta, and h <- Hv for the same function where product is not NULL. Both
 * return 0; anything else stops the step with PSGD_ERR_CALLBACK. Within one iterate all calls must be of the same
 * function: the same samples, where it is a sum over samples. product takes one v a tensor. */
typedef struct psgd_objective {
    int (*gradient)(void *data, const void *const *theta, double *loss, void *const *gradient);
    int (*product)(void *data, const void *const *theta, const void *const *v, double *loss, void *const *gradient,
                   void *const *h); /* may be NULL: finite differences of gradient then */
    void *data;
} psgd_objective;

psgd_status psgd_optimizer_bind(psgd_optimizer *optimizer, const psgd_objective *objective);

/* One iteration with the bound objective; loss (may be NULL) is that at theta before the step. */
psgd_status psgd_optimizer_iterate(psgd_optimizer *optimizer, void *const *theta, double *loss);

/* With nesterov the gradient is wanted, and theta stands, ahead of where the method is: this is where it is. A copy of
 * theta for all else. */
psgd_status psgd_optimizer_position(const psgd_optimizer *optimizer, const void *const *theta, void *const *position);

/* For the schedule "plateau": the current loss on validation data. Where it is larger than the best so far, the step
 * size is multiplied by the option lr-factor. */
psgd_status psgd_optimizer_validate(psgd_optimizer *optimizer, double loss);

/* All state in memory of the caller, state_bytes long; and back, into an optimizer created with the same method,
 * tensors and options that shape its state. What is truncated, damaged or of something else is refused and changes
 * nothing. */
int64_t psgd_optimizer_state_bytes(const psgd_optimizer *optimizer);
psgd_status psgd_optimizer_state_save(const psgd_optimizer *optimizer, void *state);
psgd_status psgd_optimizer_state_load(psgd_optimizer *optimizer, int64_t bytes, const void *state);

/* The same as a file, which is replaced atomically. */
psgd_status psgd_optimizer_save(const psgd_optimizer *optimizer, const char *path);
psgd_status psgd_optimizer_load(psgd_optimizer *optimizer, const char *path);

int64_t psgd_optimizer_steps(const psgd_optimizer *optimizer);       /* taken, skipped ones included */
int64_t psgd_optimizer_skipped(const psgd_optimizer *optimizer);     /* because something was not finite */
int64_t psgd_optimizer_evaluations(const psgd_optimizer *optimizer); /* of loss and gradient, by iterate */
int64_t psgd_optimizer_products(const psgd_optimizer *optimizer);    /* Hessian-vector products, by iterate */
const char *psgd_optimizer_note(const psgd_optimizer *optimizer);    /* why the last skipped step was; "" for none */
double psgd_optimizer_rate(const psgd_optimizer *optimizer);         /* mu of the coming step */

/* What psgd has fitted to a tensor, or with the option joint to all of them as one vector; NULL for other methods. */
const psgd_precond *psgd_optimizer_precond(const psgd_optimizer *optimizer, int tensor);

#ifdef __cplusplus
}
#endif
#endif
