/* Optimizers over a list of tensors: PSGD with a group for each tensor, its relatives in closed form, and common
 * methods for comparison. psgd_method_name lists them.
 *
 * Two ways in. Step by step: the caller has a gradient (and, where psgd_optimizer_wants_product says so, a
 * Hessian-vector product for the v that psgd_optimizer_draw gives) and calls psgd_optimizer_step. Closure: bind an
 * objective once, then call psgd_optimizer_iterate.
 *
 * A list of arrays has one array per tensor, of the optimizer's dtype, in C order. Only create, bind, save, load and
 * health allocate. On failure the parameters are unchanged, and so is the optimizer except for its counters and what
 * psgd_optimizer_step says. */
#ifndef PSGD_OPTIM_H
#define PSGD_OPTIM_H

#include <stdint.h>

#include <psgd/comm.h>
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
 * psgd looks at it. rows is the max number of rows (of the first dimension) in a gradient given to
 * psgd_optimizer_step_rows; 0: gradients are whole. name is what messages call the tensor; NULL: "tensor 0" and so on.
 */
typedef struct psgd_tensor {
    const char *spec;
    int ndim;
    const int64_t *shape;
    int64_t rows;
    const char *name;
} psgd_tensor;

/* The methods, from 0; NULL past the last. */
const char *psgd_method_name(int index);
const char *psgd_method_summary(int index);

/* options may be NULL: names are those of psgd_optimizer_option, which include those of psgd_precond_create.
 * Tensors, specs, names and options need not outlive the call.
 *
 * dtype PSGD_BF16 or PSGD_F16: parameters, gradients, v and h are arrays of that type. State and arithmetic are f32,
 * and a step rounds the new parameters up or down at random, so that steps below the spacing of the type are not lost;
 * the bits are a function of (seed, tensor, step, entry). Saved state is that of f32. bind, iterate, observe and
 * position are refused. */
psgd_status psgd_optimizer_create(const psgd_context *context, const char *method, int tensor_count,
                                  const psgd_tensor *tensors, psgd_dtype dtype, const psgd_options *options,
                                  psgd_optimizer **optimizer);
void psgd_optimizer_free(psgd_optimizer *optimizer);

/* The same over ranks (psgd/comm.h), which all call it, with the same arguments; comm outlives the optimizer. From then
 * on all ranks make the same calls in the same order.
 *
 * A step takes this rank's share of gradient and h and uses the sum over the ranks, so for a mean over the ranks divide
 * before. v is the same on all ranks, and theta ends up the same on all. So it is with an objective: its loss, gradient
 * and product are shares. Each preconditioner whose work is worth it has one owner, and only that rank holds it; the
 * others are on every rank (psgd_optimizer_owner). Results have the same bits whoever owns what. Gradients that sum to
 * the same bits on another number of ranks (psgd_tree_add) give the same step there.
 *
 * state_save, tensor_state_save and save: all ranks call them, and rank 0 gets the bytes or writes the file, which is
 * that of a single rank; buffers elsewhere may be NULL. load: every rank gets the same bytes, saved on any number of
 * ranks. Row-sparse gradients are refused. */
psgd_status psgd_optimizer_create_comm(const psgd_context *context, psgd_comm *comm, const char *method,
                                       int tensor_count, const psgd_tensor *tensors, psgd_dtype dtype,
                                       const psgd_options *options, psgd_optimizer **optimizer);

/* Overlap, where the comm allows it (psgd_comm_ops.any_thread); nothing happens elsewhere. Before a step, and while
 * others are still being computed, this rank's share of the gradient of a tensor, and of h on steps that want a
 * product, is ready to be summed over the ranks: psgd_graph_on_final reports when. The arrays are copied, and passed to
 * the step again. Call it at most once per step and tensor, in any order; tensors that were not ready are summed with
 * the step. Until the step make no other call with the comm. messages: seconds that such sums have taken so far, and
 * those of them that steps have waited for; the rest was hidden. */
psgd_status psgd_optimizer_ready(psgd_optimizer *optimizer, int tensor, const void *gradient, const void *h);
psgd_status psgd_optimizer_messages(const psgd_optimizer *optimizer, double *seconds, double *waited);

/* The rank that holds the preconditioner of a tensor; -1 where every rank does, there is none, or its tiles (spec
 * tiles(G,a,b)) have owners of their own. Of a tile, from 0: the rank that holds it. */
int psgd_optimizer_owner(const psgd_optimizer *optimizer, int tensor);
int psgd_optimizer_tile_owner(const psgd_optimizer *optimizer, int tensor, int tile);

/* The options, from 0 (psgd/options.h), those of psgd_precond_create last; defaults are those of the method, which may
 * be psgd-newton or psgd-fisher: psgd with that criterion. method NULL: of no method in particular, and options whose
 * default depends on it have none. 0 also for an unknown method. */
int psgd_optimizer_option(const char *method, int index, psgd_option_info *option);

/* The same with the value that this optimizer has in place of the default: the one given, else a default that also
 * depends on the number of parameters, the option defaults and the delay. */
int psgd_optimizer_setting(const psgd_optimizer *optimizer, int index, psgd_option_info *option);

/* What the method, with its options, needs besides gradients. */
int psgd_optimizer_uses_products(const psgd_optimizer *optimizer);    /* 1: Hessian-vector products, on some steps */
int64_t psgd_optimizer_pairs(const psgd_optimizer *optimizer);        /* the pairs (v, h) of such a step */
int psgd_optimizer_uses_activations(const psgd_optimizer *optimizer); /* 1: see psgd_optimizer_observe */
int psgd_optimizer_needs_objective(const psgd_optimizer *optimizer);  /* 1: it searches; only bind and iterate work */

/* Changes an option between steps: lr (which schedules then multiply), decay, momentum (which stays 0, or above 0) or
 * step, the learning rate of the preconditioners. It is not part of the state. */
psgd_status psgd_optimizer_set_number(psgd_optimizer *optimizer, const char *option, double value);

/* 1 where the coming step takes a Hessian-vector product, of any tensor or of this one, else 0. */
int psgd_optimizer_wants_product(const psgd_optimizer *optimizer);
int psgd_optimizer_tensor_wants_product(const psgd_optimizer *optimizer, int tensor);

/* The v of the coming step for a tensor: pairs (an option, 1 unless set) times its elements, standard normal x or, as
 * option probe says, Q'x. x is a function of the options seed and first-tensor, the tensor and the number of steps in
 * which it had a gradient (with joint: the steps of the optimizer, and where the tensor is in the vector), and of
 * nothing else. Over several ranks all of them call it, for the same tensors in the same order. */
psgd_status psgd_optimizer_draw(const psgd_optimizer *optimizer, int tensor, void *v);

/* One step: theta changes. v and h = Hv are read where psgd_optimizer_wants_product says 1, and may be NULL elsewhere;
 * v may also be the caller's own, (dtheta, dgradient) say.
 *
 * Where the gradient of a tensor is NULL, its parameters, state and preconditioner do not change, v and h are not read,
 * and the step does not count for it: update-every, v and the bias correction of moving averages use the steps in which
 * the tensor had a gradient; schedules use those of the optimizer. A joint preconditioner takes v and h of such a
 * tensor as zero; with the option integrate this is PSGD_ERR_UNSUPPORTED. Where h of a tensor is NULL, the tensor moves
 * and its preconditioner is not fitted.
 *
 * The step is skipped where a gradient, v or h is not finite: only counters change. It is skipped too where the
 * direction is not finite or the step would overflow: theta is unchanged, but preconditioners and moving averages may
 * have been updated. A skipped step returns PSGD_OK until there are more than the option max-skipped in a row; then
 * PSGD_ERR_NOT_FINITE. */
psgd_status psgd_optimizer_step(psgd_optimizer *optimizer, void *const *theta, const void *const *gradient,
                                const void *const *v, const void *const *h);

/* PSGD_ERR_NOT_FINITE where a gradient, v or h of this step, or the h of a pair that is due at it, is not finite;
 * nothing changes. For several optimizers that must move together or not at all. rows may be NULL. */
psgd_status psgd_optimizer_check(const psgd_optimizer *optimizer, const psgd_rows *const *rows,
                                 const void *const *gradient, const void *const *v, const void *const *h);

/* One step with row-sparse gradients: rows[i] is NULL for a tensor whose arrays are whole, else its gradient, v and h
 * are [count, elements of a row]. rows may be NULL: all are whole. Absent rows keep their parameters and the method's
 * state; the cost is that of the rows present. For sgd and adagrad the result is that of a gradient with zeros in the
 * absent rows; sparse-adam leaves their moments as they are; psgd takes kron(diag,G), scan and scaw with the option
 * rows (exact unless it is lazy), without momentum. Clipping is joint over all rows present; clip-rms is over those of
 * a tensor. Other methods, and the options l2 and decay, would touch every row: they are refused when the optimizer is
 * created.
 *
 * draw_rows: the rows of the v that psgd_optimizer_draw would give. */
psgd_status psgd_optimizer_step_rows(psgd_optimizer *optimizer, void *const *theta, const psgd_rows *const *rows,
                                     const void *const *gradient, const void *const *v, const void *const *h);
psgd_status psgd_optimizer_draw_rows(const psgd_optimizer *optimizer, int tensor, const psgd_rows *rows, void *v);

/* For kfac: count rows of activations (the inputs of a layer, as many as the tensor has columns) and of gradients with
 * respect to its outputs (as many as it has rows), used instead of gradients for this tensor. */
psgd_status psgd_optimizer_observe(psgd_optimizer *optimizer, int tensor, int64_t count, const void *activations,
                                   const void *output_gradients);

/* The caller's function: loss and gradient at theta, and h <- Hv for the same function where product is not NULL. Both
 * return 0; anything else stops the step with PSGD_ERR_CALLBACK. bind copies the struct. Within one iterate all calls
 * must be of the same function: the same samples, where it is a sum over samples. product takes one v per tensor. */
typedef struct psgd_objective {
    int (*gradient)(void *data, const void *const *theta, double *loss, void *const *gradient);
    int (*product)(void *data, const void *const *theta, const void *const *v, double *loss, void *const *gradient,
                   void *const *h); /* may be NULL: finite differences of gradients are used. With the option delay a
                                       worker calls it, at the same time as gradient (psgd_optimizer_bind_product) */
    void *data;
} psgd_objective;

psgd_status psgd_optimizer_bind(psgd_optimizer *optimizer, const psgd_objective *objective);

/* One iteration with the bound objective; loss (may be NULL) is that at theta before the step. */
psgd_status psgd_optimizer_iterate(psgd_optimizer *optimizer, void *const *theta, double *loss);

/* With the option delay: Hessian-vector products on worker threads, while the caller takes the next steps.
 *
 * keep is called by the thread that calls step, within a step that has a pair, and stores what the product of this step
 * needs (its samples, say) in place slot, from 0 to psgd_optimizer_slots - 1. It may be NULL where there is nothing to
 * keep.
 *
 * product: h <- Hv at theta for what was kept in slot, later, on a thread of worker, from 0 to the option workers - 1.
 * Each worker makes one call at a time, and may do so at the same time as other workers and as anything that the caller
 * does: so what a call writes must belong to the worker or the slot, and it must not call the optimizer. theta is a
 * copy of that step's. The arrays of theta lie one after the other, as do those of v and of h. A tensor with row-sparse
 * gradients has at its place in v and h the rows of that step; one without a gradient has v = 0. The first product is
 * called by the thread that calls step, as worker 0.
 *
 * Both return 0. Anything else is PSGD_ERR_CALLBACK: of this step (keep), or of the step at which the fit would have
 * taken effect. That step is skipped where h is not finite. psgd_optimizer_wants_product is 0 from now on. */
typedef struct psgd_delayed_product {
    int (*keep)(void *data, int slot);
    int (*product)(void *data, int slot, int worker, const void *const *theta, const void *const *v, void *const *h);
    void *data;
} psgd_delayed_product;

psgd_status psgd_optimizer_bind_product(psgd_optimizer *optimizer, const psgd_delayed_product *product);
int psgd_optimizer_slots(const psgd_optimizer *optimizer);   /* 0 without the option delay */
int psgd_optimizer_workers(const psgd_optimizer *optimizer); /* as above */

/* With the option delay, over ranks: ranks that only evaluate Hessian-vector products and fit, instead of worker
 * threads, while the others, the data ranks, take steps. Results have the same bits as with worker threads.
 *
 * all is a comm of all ranks: first the data ranks, then curvature_ranks curvature ranks, each in the order of the comm
 * that its optimizer was created with (psgd_optimizer_create_comm): one over the data ranks, another over the curvature
 * ranks, with the same tensors and options. All ranks call bind_curvature, before the first step; all must outlive the
 * optimizer and be used for nothing else until then. Then curvature ranks call serve_curvature, which returns when the
 * data ranks have called end_curvature, after the last step and before they free the optimizer. To load a state, all
 * ranks load it, before they serve and step; data ranks alone save it.
 *
 * keep, on every data rank, within a step that has a pair: writes kept bytes, what the product of this step needs (the
 * index of the batch, say); NULL where kept is 0. kept is this rank's own, and 0 on curvature ranks.
 *
 * product, on every curvature rank: this rank's share of h <- Hv at theta, as the shares of h that the ranks of an
 * optimizer pass to a step, one v per tensor. kept[d] is what data rank d has kept. theta, v and h are as for
 * psgd_delayed_product.
 *
 * Both return 0; failures, and an h that is not finite, are treated as for psgd_delayed_product.
 * psgd_optimizer_wants_product is 0 from now on. The option delay-free is refused. Where bind_curvature fails, it does
 * so on all ranks, and the optimizer can only be freed. */
typedef struct psgd_curvature {
    int64_t kept;
    int (*keep)(void *data, void *kept);
    int (*product)(void *data, const void *const *kept, const void *const *theta, const void *const *v, void *const *h);
    void *data;
} psgd_curvature;

psgd_status psgd_optimizer_bind_curvature(psgd_optimizer *optimizer, psgd_comm *all, int curvature_ranks,
                                          const psgd_curvature *curvature);
psgd_status psgd_optimizer_serve_curvature(psgd_optimizer *optimizer);
psgd_status psgd_optimizer_end_curvature(psgd_optimizer *optimizer);

/* position <- the iterate that belongs to theta. With nesterov, theta is the point at which the gradient is evaluated,
 * ahead of it; for all other methods position is a copy of theta. */
psgd_status psgd_optimizer_position(const psgd_optimizer *optimizer, const void *const *theta, void *const *position);

/* For the schedule "plateau": the current loss on validation data. Where it is larger than the best so far, the
 * learning rate is multiplied by the option lr-factor. */
psgd_status psgd_optimizer_validate(psgd_optimizer *optimizer, double loss);

/* Saves all state to memory of the caller, state_bytes long, and loads it into an optimizer created with the same
 * method, tensors and options that determine its state. Bytes that are truncated, damaged or of another optimizer are
 * refused (PSGD_ERR_FORMAT) and change nothing. */
int64_t psgd_optimizer_state_bytes(const psgd_optimizer *optimizer);
psgd_status psgd_optimizer_state_save(const psgd_optimizer *optimizer, void *bytes);
psgd_status psgd_optimizer_state_load(psgd_optimizer *optimizer, int64_t count, const void *bytes);

/* The same for one tensor, or, with the index PSGD_SHARED_STATE, for what belongs to no tensor: counters and a joint
 * preconditioner. The whole state is the shared one followed by that of each tensor, so a program that keeps state by
 * the name of a parameter can save and restore it that way, in any order. */
enum { PSGD_SHARED_STATE = -1 };
int64_t psgd_optimizer_tensor_state_bytes(const psgd_optimizer *optimizer, int tensor);
psgd_status psgd_optimizer_tensor_state_save(const psgd_optimizer *optimizer, int tensor, void *bytes);
psgd_status psgd_optimizer_tensor_state_load(psgd_optimizer *optimizer, int tensor, int64_t count, const void *bytes);

/* The whole state as a file, which is replaced atomically. */
psgd_status psgd_optimizer_save(const psgd_optimizer *optimizer, const char *path);
psgd_status psgd_optimizer_load(psgd_optimizer *optimizer, const char *path);

int64_t psgd_optimizer_steps(const psgd_optimizer *optimizer);       /* taken, skipped ones included */
int64_t psgd_optimizer_skipped(const psgd_optimizer *optimizer);     /* because something was not finite */
int64_t psgd_optimizer_evaluations(const psgd_optimizer *optimizer); /* of loss and gradient, by iterate */
int64_t psgd_optimizer_products(const psgd_optimizer *optimizer);    /* Hessian-vector products, by iterate */
const char *psgd_optimizer_note(const psgd_optimizer *optimizer);    /* reason of the last skip, "" for none */
double psgd_optimizer_rate(const psgd_optimizer *optimizer);         /* mu of the coming step */
double psgd_optimizer_base_rate(const psgd_optimizer *optimizer);    /* option lr: mu without schedule and warm-up */

/* 1 where a run that started at the loss first has diverged at loss: it is not finite, or loss - first is above
 * 10^4 (1 + |first|). The command stops such runs and says so. */
int psgd_diverged(double first, double loss);

/* The preconditioner of a tensor, or with the option joint of all of them as one vector; NULL for methods other than
 * psgd, and where another rank owns it. It belongs to the optimizer; with the option delay each step may replace it. */
const psgd_precond *psgd_optimizer_precond(const psgd_optimizer *optimizer, int tensor);

/* All ranks. Of the preconditioner of a tensor, whichever rank holds it or its tiles: updates, skipped ones, and the
 * condition number of Q. */
psgd_status psgd_optimizer_health(const psgd_optimizer *optimizer, int tensor, double *updates, double *skipped,
                                  double *condition);

#ifdef __cplusplus
}
#endif
#endif
