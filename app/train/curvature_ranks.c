#include "train/curvature_ranks.h"
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

/* One message on all ranks; it names the failed rank by its index among all of them. */
psgd_status psgd__train_agree(const trainer *self, psgd_status status)
{
    char sentence[512];
    int rank, used = 0;
    if (!self->config.all) return psgd_comm_agree(self->config.comm, status);
    snprintf(sentence, sizeof sentence, "%s", psgd_last_error());
    if (status != PSGD_OK && sscanf(sentence, "rank %d: %n", &rank, &used) == 1 && used > 0) {
        status = psgd__fail(status, "%s", sentence + used);
    }
    return psgd_comm_agree(self->config.all, status);
}

/* What a data rank keeps of a step: its number, and this rank's part of the carried state. */
static int keep(void *data, void *kept)
{
    const trainer *self = data;
    memcpy(kept, &self->now.step, sizeof self->now.step);
    psgd__micro_own_state(self, (char *)kept + sizeof self->now.step);
    return 0;
}

/* Hv alone, on the samples that it is taken on. */
static psgd_status run_product(trainer *self, const task_piece *piece, const void *theta, const void *v, double *loss)
{
    const train_graph *on = piece->part->graph ? piece->part : piece->full;
    psgd__task_share_state(self->task, piece->full, on);
    return psgd_graph_hessian(on->graph, theta, v, self->gradient, self->h, loss);
}

/* The batch of a step and the state before it. Without micro-batches it is in the graphs from now on. */
static psgd_status go_to(trainer *self, const void *const *kept)
{
    task *t = self->task;
    uint64_t seed = (uint64_t)self->config.settings.seed;
    memcpy(&self->now.step, kept[0], sizeof self->now.step);
    psgd__micro_join_states(self, kept, sizeof self->now.step);
    if (self->micro) return PSGD_OK;
    task_piece whole = psgd__task_piece(t, 0);
    PSGD_TRY(t->ops->load(t, self->now.step, &whole));
    psgd_graph_set_step(t->full.graph, seed, (uint64_t)self->now.step);
    psgd_graph_set_step(t->part.graph, seed, (uint64_t)self->now.step);
    return PSGD_OK;
}

static int product(void *data, const void *const *kept, const void *const *theta, const void *const *v, void *const *h)
{
    trainer *self = data;
    double loss;
    psgd_status status = go_to(self, kept);
    if (status == PSGD_OK) {
        status = psgd__micro_evaluate(self, run_product, theta[0], v[0], self->parameters, &loss);
    }
    memcpy(h[0], self->h, (size_t)self->parameters * psgd_dtype_size(self->config.dtype));
    return (int)status;
}

/* Two requests, theta and v, and two replies, Q. Most of the optimizer's state is 1 + slots copies of Q. */
double psgd__train_curvature_memory(const trainer *self)
{
    if (!self->config.all || !self->optimizer) return 0;
    double slab = (double)self->parameters * (double)psgd_dtype_size(self->config.dtype);
    double copies = 1 + psgd_optimizer_slots(self->optimizer);
    return 2 * (double)(1 + self->pairs) * slab + 2 * (double)psgd_optimizer_state_bytes(self->optimizer) / copies;
}

static psgd_status check(const trainer *self)
{
    const train_config *config = &self->config;
    if (psgd_optimizer_workers(self->optimizer) == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "--curvature-ranks is for asynchronous fits: add --delay, as in --delay 4, and a psgd "
                          "method");
    }
    if (!psgd_optimizer_uses_products(self->optimizer)) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "--curvature-ranks is for Hessian-vector products, and %s takes none; psgd-newton does",
                          config->settings.optimizer);
    }
    if (config->settings.hv == HV_EXACT) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT,
                      "--curvature-ranks is for --hv exact; finite differences are taken in the step");
}

psgd_status psgd__train_bind_curvature(trainer *self)
{
    train_config *config = &self->config;
    if (!config->all) return PSGD_OK;
    psgd_curvature own = {.data = self};
    self->serves = psgd_comm_rank(config->all) >= psgd_comm_size(config->all) - config->curvature_ranks;
    if (self->serves) {
        own.product = product;
    } else {
        own.keep = keep;
        own.kept = (int64_t)sizeof self->now.step + psgd__micro_own_bytes(self);
    }
    PSGD_TRY(psgd__train_agree(self, check(self)));
    return psgd_optimizer_bind_curvature(self->optimizer, config->all, config->curvature_ranks, &own);
}

psgd_status psgd__train_serve_curvature(trainer *self)
{
    psgd_status status = psgd_optimizer_serve_curvature(self->optimizer);
    if (status == PSGD_OK) return psgd__train_agree(self, PSGD_OK);
    psgd_comm_stop(self->config.all, psgd_last_error()); /* data ranks may wait for a reply */
    return status;
}

psgd_status psgd__train_end_curvature(trainer *self, psgd_status status)
{
    char sentence[512];
    if (!self->config.all || status == PSGD_ERR_RANK) return status;
    snprintf(sentence, sizeof sentence, "%s", psgd_last_error());
    PSGD_TRY(psgd_optimizer_end_curvature(self->optimizer));
    if (status != PSGD_OK) status = psgd__fail(status, "%s", sentence);
    return psgd__train_agree(self, status);
}
