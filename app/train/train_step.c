/* One step of training: gradients and Hessian-vector products of a batch, and what the optimizer makes of them. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

/* Copies between a list of tensors and pair k of a slab of pairs. */
static void copy_pair(const trainer *self, void *const *list, int64_t k, char *slab, bool gather)
{
    const psgd_graph *graph = self->task->full.graph;
    size_t element = psgd_dtype_size(self->config.dtype);
    for (int i = 0; i < self->tensors; i++) {
        const int64_t *shape = psgd_graph_parameter_shape(graph, i);
        size_t bytes = (size_t)(shape[0] * shape[1]) * element;
        char *one = slab + (size_t)psgd_graph_parameter_offset(graph, i) * element;
        char *other = (char *)list[i] + (size_t)k * bytes;
        memcpy(gather ? one : other, gather ? other : one, bytes);
    }
}

/* Gradient and Hv in one pass, or Hv of a part of the batch and then the gradient of all of it. */
static psgd_status differentiate(trainer *self, const task_piece *piece, const void *theta, const void *v, void *h,
                                 double *loss)
{
    if (!piece->part->graph) return psgd_graph_hessian(piece->full->graph, theta, v, self->gradient, h, loss);
    psgd__task_share_state(self->task, piece->full, piece->part);
    PSGD_TRY(psgd_graph_hessian(piece->part->graph, theta, v, self->gradient, h, loss));
    return psgd_graph_gradient(piece->full->graph, theta, self->gradient, loss);
}

static psgd_status run_product(trainer *self, const task_piece *piece, const void *theta, const void *v, double *loss)
{
    return differentiate(self, piece, theta, v, self->h, loss);
}

static psgd_status run_gradient(trainer *self, const task_piece *piece, const void *theta, const void *v, double *loss)
{
    (void)v;
    return psgd_graph_gradient(piece->full->graph, theta, self->gradient, loss);
}

static psgd_status draw(const trainer *self, const psgd_rows *const *rows)
{
    for (int i = 0; i < self->tensors; i++) {
        PSGD_TRY(rows[i] ? psgd_optimizer_draw_rows(self->optimizer, i, rows[i], self->v_list[i])
                         : psgd_optimizer_draw(self->optimizer, i, self->v_list[i]));
    }
    return PSGD_OK;
}

static psgd_status run_pairs(trainer *self, const task_piece *piece, const void *theta, const void *all, double *loss)
{
    if (self->pairs == 1) return differentiate(self, piece, theta, all, self->h, loss);
    size_t bytes = (size_t)self->parameters * psgd_dtype_size(self->config.dtype);
    char *v = self->v + (size_t)self->pairs * bytes, *h = self->h + (size_t)self->pairs * bytes;
    for (int64_t k = 0; k < self->pairs; k++) {
        copy_pair(self, self->v_list, k, v, true);
        PSGD_TRY(differentiate(self, piece, theta, v, h, loss));
        copy_pair(self, self->h_list, k, h, false);
    }
    return PSGD_OK;
}

static psgd_status step_with_gradients(trainer *self, double *loss)
{
    psgd_graph *graph = self->task->full.graph;
    psgd_comm *comm = self->config.comm;
    psgd_rows found[TRAIN_MAX_TENSORS];
    const psgd_rows *rows[TRAIN_MAX_TENSORS] = {NULL};
    for (int i = 0; i < self->tensors; i++) {
        if (psgd_graph_max_rows(graph, i) == 0) continue;
        PSGD_TRY(psgd_graph_rows(graph, i, &found[i]));
        rows[i] = &found[i];
    }
    psgd_status status;
    self->overlaps = self->micro && psgd_comm_size(comm) > 1 && self->pairs == 1;
    self->agreed = false;
    if (psgd_optimizer_wants_product(self->optimizer)) {
        status = draw(self, rows);
        if (status == PSGD_OK) {
            status = psgd__micro_evaluate(self, run_pairs, self->theta, self->v, self->pairs * self->parameters, loss);
        }
    } else {
        status = psgd__micro_evaluate(self, run_gradient, self->theta, NULL, 0, loss);
    }
    self->overlaps = false;
    PSGD_TRY(self->agreed ? status : psgd_comm_agree(comm, status));
    PSGD_TRY(psgd_optimizer_step_rows(self->optimizer, self->theta_list, rows, (const void *const *)self->gradient_list,
                                      (const void *const *)self->v_list, (const void *const *)self->h_list));
    return psgd_comm_sum(comm, PSGD_F64, 1, loss);
}

/* The optimizer's own calls, for methods that search and for finite differences of gradients. v and h are free then: v
 * has theta, and then v. Over ranks the optimizer adds what they return. */
static int closure_gradient(void *data, const void *const *theta, double *loss, void *const *gradient)
{
    trainer *self = data;
    copy_pair(self, (void *const *)theta, 0, self->v, true);
    if (psgd__micro_evaluate(self, run_gradient, self->v, NULL, 0, loss) != PSGD_OK) return 1;
    copy_pair(self, gradient, 0, self->gradient, false);
    return 0;
}

static int closure_product(void *data, const void *const *theta, const void *const *v, double *loss,
                           void *const *gradient, void *const *h)
{
    trainer *self = data;
    char *own_v = self->v + (size_t)self->parameters * psgd_dtype_size(self->config.dtype);
    copy_pair(self, (void *const *)theta, 0, self->v, true);
    copy_pair(self, (void *const *)v, 0, own_v, true);
    if (psgd__micro_evaluate(self, run_product, self->v, own_v, self->parameters, loss) != PSGD_OK) return 1;
    copy_pair(self, gradient, 0, self->gradient, false);
    copy_pair(self, h, 0, self->h, false);
    return 0;
}

psgd_status psgd__train_bind(trainer *self)
{
    psgd_objective objective = {.gradient = closure_gradient, .data = self};
    if (self->config.settings.hv == HV_EXACT) objective.product = closure_product;
    return self->by_closure ? psgd_optimizer_bind(self->optimizer, &objective) : PSGD_OK;
}

/* The state that is carried over is that of the last evaluation: at theta, or where a search or a finite difference has
 * looked last. */
psgd_status psgd__train_step(trainer *self, double *loss)
{
    task *t = self->task;
    uint64_t seed = (uint64_t)self->config.settings.seed, step = (uint64_t)self->now.step;
    if (!self->micro) {
        task_piece whole = psgd__task_piece(t, 0);
        PSGD_TRY(t->ops->load(t, self->now.step, &whole));
        psgd_graph_set_step(t->full.graph, seed, step);
        psgd_graph_set_step(t->part.graph, seed, step);
    }
    psgd_status status = self->by_closure ? psgd_optimizer_iterate(self->optimizer, self->theta_list, loss)
                                          : step_with_gradients(self, loss);
    if (status != PSGD_OK) return psgd__fail_in(status, "step %lld", (long long)self->now.step + 1);
    PSGD_TRY(psgd__micro_carry(self));
    self->now.step++;
    self->now.valid = NAN;
    return PSGD_OK;
}
