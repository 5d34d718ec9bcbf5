/* From a list of settings to a run that can start: task, graphs, optimizer, memory. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "core/checksum.h"
#include "core/file.h"
#include "core/memory.h"
#include "train/settings.h"

/* theta and gradient, and best weights; v and h, and one of each more; the state, and a copy of it in a checkpoint. */
double psgd__trainer_memory(const trainer *self)
{
    const task *t = self->task;
    bool products = psgd_optimizer_uses_products(self->optimizer);
    double element = (double)psgd_dtype_size(self->config.dtype),
           parameters = (double)psgd_graph_parameters(t->full.graph);
    double slabs = (t->ops->keeps_best ? 3 : 2) + (products ? 2 * (double)(self->pairs + 1) : 0);
    double bytes = slabs * parameters * element + (double)psgd_graph_resident_bytes(t->full.graph, true, products) +
                   (double)psgd_graph_resident_bytes(t->part.graph, true, true) +
                   (double)psgd_graph_resident_bytes(t->less.graph, true, products) +
                   (double)psgd_graph_resident_bytes(t->part_less.graph, true, true) + t->ops->memory(t);
    bytes += psgd__micro_memory(self) + psgd__delayed_memory(self) + psgd__train_curvature_memory(self);
    return bytes + (self->optimizer ? 2 * (double)psgd_optimizer_state_bytes(self->optimizer) : 0);
}

static psgd_status check_memory(const trainer *self)
{
    return psgd__memory_check(psgd__trainer_memory(self), "this run",
                              self->config.kind->text ? "fewer words, hidden units or steps back, or a smaller batch, "
                                                        "need less"
                                                      : "a smaller batch needs less");
}

static psgd_status build_graphs(trainer *self, bool row_gradients)
{
    task *t = self->task;
    const train_settings *s = &self->config.settings;
    int64_t count = s->micro_batches, each = s->batch / count, hv = s->hv_batch < s->batch ? s->hv_batch : 0;
    bool uneven = s->batch % count > 0, hv_uneven = hv % count > 0;
    PSGD_TRY(psgd__task_graph(t, each + uneven, true, row_gradients, &t->full));
    if (uneven) PSGD_TRY(psgd__task_graph(t, each, true, row_gradients, &t->less));
    if (hv > 0) PSGD_TRY(psgd__task_graph(t, hv / count + hv_uneven, true, false, &t->part));
    if (hv > 0 && hv_uneven) PSGD_TRY(psgd__task_graph(t, hv / count, true, false, &t->part_less));
    self->tensors = psgd_graph_parameter_count(t->full.graph);
    self->parameters = psgd_graph_parameters(t->full.graph);
    if (self->tensors <= TRAIN_MAX_TENSORS) return check_memory(self);
    return psgd__fail(PSGD_ERR_UNSUPPORTED, "a model of more than %d matrices", TRAIN_MAX_TENSORS);
}

static psgd_status make_optimizer(trainer *self)
{
    psgd_tensor tensors[TRAIN_MAX_TENSORS];
    const psgd_graph *graph = self->task->full.graph;
    for (int i = 0; i < self->tensors; i++) {
        tensors[i] = (psgd_tensor){.name = psgd_graph_parameter_name(graph, i),
                                   .ndim = 2,
                                   .shape = psgd_graph_parameter_shape(graph, i),
                                   .rows = psgd_graph_max_rows(graph, i)};
    }
    PSGD_TRY(psgd_optimizer_create_comm(self->context, self->config.comm, psgd__config_method(&self->config),
                                        self->tensors, tensors, self->config.dtype, self->config.optimizer,
                                        &self->optimizer));
    self->pairs = psgd_optimizer_pairs(self->optimizer);
    return PSGD_OK;
}

/* Those asked for; where only steps are, as many as these take. */
static int64_t total_epochs(const trainer *self)
{
    const train_settings *s = &self->config.settings;
    int64_t each = self->task->steps_per_epoch;
    if (s->steps == 0 || psgd__options_find(self->config.own_list, "epochs")) return s->epochs;
    return (s->steps - 1) / each + 1;
}

static int64_t total_steps(const trainer *self)
{
    int64_t all = total_epochs(self) * self->task->steps_per_epoch, steps = self->config.settings.steps;
    return steps > 0 && steps < all ? steps : all;
}

/* Where nothing else is asked for, the learning rate falls along half a cosine until the last step. */
static psgd_status set_cosine(trainer *self)
{
    psgd_options *options = self->config.optimizer;
    int64_t total = total_steps(self);
    if (psgd_optimizer_needs_objective(self->optimizer)) return PSGD_OK;
    if (!psgd__options_find(options, "lr-schedule")) PSGD_TRY(psgd_options_set(options, "lr-schedule", "cosine"));
    if (!psgd__options_find(options, "total")) PSGD_TRY(psgd_options_set_number(options, "total", (double)total));
    psgd_optimizer_free(self->optimizer);
    self->optimizer = NULL;
    return make_optimizer(self);
}

/* lr_epochs: steps of a number of epochs. lr_end: the factor for each epoch follows from where lr starts and ends. */
static psgd_status set_schedule(trainer *self)
{
    const train_settings *s = &self->config.settings;
    psgd_options *options = self->config.optimizer;
    double end = s->lr_end, start = psgd_optimizer_base_rate(self->optimizer);
    int64_t every = s->lr_epochs > 0 ? s->lr_epochs : 1;
    PSGD_TRY(psgd__settings_check_schedule(&self->config));
    if (s->lr_epochs == 0) {
        if (!(end > 0)) return set_cosine(self);
        if (end > start) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "lr-end is %g and lr %g: it can only fall", end, start);
        }
        int64_t epochs = total_epochs(self);
        double factor = epochs > 1 ? pow(end / start, 1 / (double)(epochs - 1)) : 1;
        PSGD_TRY(psgd_options_set_number(options, "lr-factor", factor));
    }
    PSGD_TRY(psgd_options_set(options, "lr-schedule", "step"));
    PSGD_TRY(psgd_options_set_number(options, "lr-every", (double)(every * self->task->steps_per_epoch)));
    psgd_optimizer_free(self->optimizer);
    self->optimizer = NULL;
    return make_optimizer(self);
}

static void free_graphs(trainer *self)
{
    task *t = self->task;
    psgd_optimizer_free(self->optimizer);
    self->optimizer = NULL;
    psgd_graph_free(t->full.graph);
    psgd_graph_free(t->part.graph);
    psgd_graph_free(t->less.graph);
    psgd_graph_free(t->part_less.graph);
    t->full = t->part = t->less = t->part_less = (train_graph){0};
}

/* Row-sparse gradients where everything takes them, else whole ones. */
static psgd_status build(trainer *self)
{
    const train_config *config = &self->config;
    bool rows = config->model.untied && config->model.row_gradients && config->model.l2 == 0 &&
                config->settings.hv == HV_EXACT && config->settings.hv_batch % config->settings.batch == 0 &&
                config->settings.micro_batches == 1;
    PSGD_TRY(psgd_comm_agree(config->comm, build_graphs(self, rows)));
    psgd_status status = make_optimizer(self);
    if (rows && (status == PSGD_ERR_UNSUPPORTED || (status == PSGD_OK && self->pairs > 1))) {
        free_graphs(self);
        PSGD_TRY(build_graphs(self, false)); /* a single rank */
        status = make_optimizer(self);
    }
    return status == PSGD_OK ? set_schedule(self) : status;
}

static void fill_list(const trainer *self, void **list, char *slab, int64_t copies)
{
    size_t element = psgd_dtype_size(self->config.dtype);
    for (int i = 0; i < self->tensors; i++) {
        list[i] = slab + (size_t)(copies * psgd_graph_parameter_offset(self->task->full.graph, i)) * element;
    }
}

static psgd_status allocate(trainer *self)
{
    int64_t element = (int64_t)psgd_dtype_size(self->config.dtype), slab = (self->parameters * element + 63) / 64 * 64;
    self->slabs = psgd__alloc(self->context, slab * (2 + 2 * (self->pairs + 1) + self->task->ops->keeps_best), 1);
    self->theta_list = psgd__alloc(self->context, 4 * self->tensors, sizeof(void *));
    if (!self->slabs || !self->theta_list) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a run that needs about %.2f GB",
                          psgd__trainer_memory(self) / 1e9);
    }
    self->theta = self->slabs;
    self->gradient = self->theta + slab;
    self->v = self->gradient + slab;
    self->h = self->v + slab * (self->pairs + 1);
    if (self->task->ops->keeps_best) self->best = self->h + slab * (self->pairs + 1);
    self->gradient_list = self->theta_list + self->tensors;
    self->v_list = self->gradient_list + self->tensors;
    self->h_list = self->v_list + self->tensors;
    fill_list(self, self->theta_list, self->theta, 1);
    fill_list(self, self->gradient_list, self->gradient, 1);
    fill_list(self, self->v_list, self->v, self->pairs);
    fill_list(self, self->h_list, self->h, self->pairs);
    return PSGD_OK;
}

/* What kfac makes its factors of. Rows that are not finite are not taken; the step that has them is skipped anyway. */
static void observe(void *data, int parameter, int64_t count, const void *inputs, const void *gradients)
{
    trainer *self = data;
    (void)psgd_optimizer_observe(self->optimizer, parameter, count, inputs, gradients);
}

static psgd_status open_task(trainer *self, int count, const train_setting *list)
{
    PSGD_TRY(psgd__config_read(self->context, count, list, &self->config));
    const task_ops *ops = self->config.kind->text ? &psgd__task_language : &psgd__task_samples;
    return ops->open(&self->config, &self->task);
}

/* With micro-batches kfac makes its factors of gradients: those of activations would depend on their order. */
static psgd_status make_room(trainer *self)
{
    PSGD_TRY(self->task->ops->prepare(self->task));
    PSGD_TRY(check_memory(self));
    PSGD_TRY(allocate(self));
    PSGD_TRY(psgd__micro_create(self, &self->micro));
    if (self->micro || !psgd_optimizer_uses_activations(self->optimizer)) return PSGD_OK;
    return psgd_graph_watch(self->task->full.graph, observe, self);
}

/* All ranks. Version, options and data are those of rank 0. */
static psgd_status check_ranks(const trainer *self)
{
    psgd_comm *comm = self->config.all ? self->config.all : self->config.comm;
    const task *t = self->task;
    if (psgd_comm_size(comm) == 1) return PSGD_OK;
    text data = {.context = self->context};
    t->ops->describe(t, &data);
    const char *words[] = {psgd_version(), self->config.text, data.chars ? data.chars : ""};
    static const char *const what[] = {"version of psgd", "list of options", "data", "data"};
    uint64_t own[4], first[4];
    for (int k = 0; k < 3; k++) own[k] = psgd__checksum_add(CHECKSUM_START, words[k], (int64_t)strlen(words[k]));
    own[3] = psgd__checksum_add(CHECKSUM_START, t->identity_bytes, t->identity_size);
    psgd__text_free(&data);
    memcpy(first, own, sizeof own);
    PSGD_TRY(psgd_comm_broadcast(comm, 0, sizeof first, first));
    psgd_status status = PSGD_OK;
    for (int k = 0; k < 4 && status == PSGD_OK; k++) {
        if (own[k] == first[k]) continue;
        status = psgd__fail(PSGD_ERR_ARGUMENT, "its %s is not that of rank 0; give all ranks the same", what[k]);
    }
    return psgd_comm_agree(comm, status);
}

static psgd_status prepare(trainer *self, int count, const train_setting *list)
{
    train_config *config = &self->config;
    PSGD_TRY(psgd__train_agree(self, open_task(self, count, list)));
    PSGD_TRY(check_ranks(self));
    psgd_status status = build(self);
    PSGD_TRY(config->all ? psgd__train_agree(self, status) : status);
    self->by_closure = psgd_optimizer_needs_objective(self->optimizer) || config->settings.hv == HV_DIFFERENCE;
    PSGD_TRY(psgd__train_agree(self, make_room(self)));
    PSGD_TRY(psgd__delayed_create(self, &self->delayed));
    PSGD_TRY(psgd__train_bind_curvature(self));
    self->total = total_steps(self);
    return psgd__model_start(self->context, config->kind, self->task->full.graph, config->dtype,
                             (uint64_t)config->settings.seed, self->theta);
}

psgd_status psgd__trainer_create(const psgd_context *context, const train_ranks *ranks, int count,
                                 const train_setting *settings, trainer **created)
{
    trainer *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a run");
    self->context = context;
    if (ranks) {
        self->config.comm = ranks->comm;
        self->config.all = ranks->all;
        self->config.curvature_ranks = ranks->curvature_ranks;
    }
    self->pairs = 1;
    self->lock = -1;
    self->now.best = HUGE_VAL;
    self->now.valid = self->now.first = NAN;
    psgd_status status = prepare(self, count, settings);
    if (status == PSGD_OK) {
        *created = self;
    } else {
        psgd__trainer_free(self);
    }
    return status;
}

void psgd__trainer_free(trainer *self)
{
    if (!self) return;
    if (self->task) {
        free_graphs(self);
        self->task->ops->close(self->task);
    }
    psgd__delayed_free(self, self->delayed);
    psgd__micro_free(self, self->micro);
    psgd__folder_unlock(self->lock);
    psgd__config_free(&self->config);
    psgd__free(self->context, self->slabs);
    psgd__free(self->context, self->theta_list);
    psgd__free(self->context, self);
}

/* The options that more steps would need: epochs only where they were given or steps were not. */
static const char *limit_of(const trainer *self)
{
    const train_config *config = &self->config;
    int64_t steps = config->settings.steps, of_epochs = config->settings.epochs * self->task->steps_per_epoch;
    bool counts = steps == 0 || psgd__options_find(config->own_list, "epochs");
    bool by_epochs = counts && of_epochs <= self->now.step, by_steps = steps > 0 && steps <= self->now.step;
    return by_epochs && by_steps ? "--epochs and --steps" : by_steps ? "--steps" : "--epochs";
}

train_state psgd__trainer_state(const trainer *self)
{
    return (train_state){.step = self->now.step,
                         .total = self->total,
                         .limit = limit_of(self),
                         .folder = self->config.settings.out,
                         .note = self->task->note,
                         .ranks = psgd_comm_size(self->config.comm)};
}

void psgd__trainer_watch_scores(trainer *self, void (*scored)(void *data, int64_t done, int64_t total), void *data)
{
    self->task->scored = scored;
    self->task->scored_data = data;
}

void psgd__trainer_messages(const trainer *self, double *seconds, double *waited)
{
    if (psgd_optimizer_messages(self->optimizer, seconds, waited) != PSGD_OK) *seconds = *waited = 0;
}

train_reading psgd__trainer_reading(const trainer *self)
{
    const task *t = self->task;
    return t->ops->reading ? t->ops->reading(t) : (train_reading){.first_bad = ""};
}

bool psgd__train_best_wins(const train_progress *now)
{
    return isfinite(now->best) && !(now->valid < now->best);
}

char *psgd__train_weights(const trainer *self)
{
    return self->best && psgd__train_best_wins(&self->now) ? self->best : self->theta;
}
