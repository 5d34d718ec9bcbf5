/* From a list of settings to a run that can start: task, graphs, optimizer, memory. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "train/checkpoint.h"

/* theta and gradient, and best weights; v and h, and one of each more; the state, and a copy of it in a checkpoint. */
double psgd__trainer_memory(const trainer *self)
{
    const task *t = self->task;
    bool products = psgd_optimizer_uses_products(self->optimizer);
    double element = (double)psgd_dtype_size(self->config.dtype),
           parameters = (double)psgd_graph_parameters(t->full.graph);
    double slabs = (t->ops->keeps_best ? 3 : 2) + (products ? 2 * (double)(self->pairs + 1) : 0);
    double bytes = slabs * parameters * element + (double)psgd_graph_resident_bytes(t->full.graph, true, products) +
                   (double)psgd_graph_resident_bytes(t->part.graph, true, true) + t->ops->memory(t);
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
    PSGD_TRY(psgd__task_graph(t, s->batch, true, row_gradients, &t->full));
    if (s->hv_batch > 0 && s->hv_batch < s->batch) PSGD_TRY(psgd__task_graph(t, s->hv_batch, true, false, &t->part));
    self->tensors = psgd_graph_parameter_count(t->full.graph);
    self->parameters = psgd_graph_parameters(t->full.graph);
    if (self->tensors <= TRAIN_MAX_TENSORS) return check_memory(self);
    return psgd__fail(PSGD_ERR_UNSUPPORTED, "a model of more than %d matrices", TRAIN_MAX_TENSORS);
}

static psgd_status make_optimizer(trainer *self)
{
    psgd_tensor tensors[TRAIN_MAX_TENSORS];
    const psgd_graph *graph = self->task->full.graph;
    const char *criterion, *method = psgd__config_method(&self->config, &criterion);
    for (int i = 0; i < self->tensors; i++) {
        tensors[i] = (psgd_tensor){
            .ndim = 2, .shape = psgd_graph_parameter_shape(graph, i), .rows = psgd_graph_max_rows(graph, i)};
    }
    if (criterion) PSGD_TRY(psgd_options_set(self->config.optimizer, "criterion", criterion));
    PSGD_TRY(psgd_optimizer_create(self->context, method, self->tensors, tensors, self->config.dtype,
                                   self->config.optimizer, &self->optimizer));
    self->pairs = psgd_optimizer_pairs(self->optimizer);
    return PSGD_OK;
}

/* lr_epochs: steps of a number of epochs. lr_end: the factor for each epoch follows from where lr starts and ends. */
static psgd_status set_schedule(trainer *self)
{
    const train_settings *s = &self->config.settings;
    psgd_options *options = self->config.optimizer;
    double end = s->lr_end, start = psgd_optimizer_rate(self->optimizer);
    int64_t every = s->lr_epochs > 0 ? s->lr_epochs : 1;
    if (s->lr_epochs == 0) {
        if (!(end > 0)) return PSGD_OK;
        if (end > start) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "lr-end is %g and lr %g: it can only fall", end, start);
        }
        double factor = s->epochs > 1 ? pow(end / start, 1 / (double)(s->epochs - 1)) : 1;
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
    psgd_graph_free(t->full.graph);
    psgd_graph_free(t->part.graph);
    t->full = t->part = (train_graph){0};
    psgd_optimizer_free(self->optimizer);
    self->optimizer = NULL;
}

/* Row-sparse gradients where everything takes them, else whole ones. */
static psgd_status build(trainer *self)
{
    const train_config *config = &self->config;
    bool rows = config->model.untied && config->model.row_gradients && config->model.l2 == 0 &&
                config->settings.hv == HV_EXACT && config->settings.hv_batch % config->settings.batch == 0;
    PSGD_TRY(build_graphs(self, rows));
    psgd_status status = make_optimizer(self);
    if (rows && (status == PSGD_ERR_UNSUPPORTED || (status == PSGD_OK && self->pairs > 1))) {
        free_graphs(self);
        PSGD_TRY(build_graphs(self, false));
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

static psgd_status prepare(trainer *self, int count, const train_setting *list)
{
    train_config *config = &self->config;
    PSGD_TRY(psgd__config_read(self->context, count, list, config));
    const task_ops *ops = config->kind->text ? &psgd__task_language : &psgd__task_samples;
    PSGD_TRY(ops->open(config, &self->task));
    PSGD_TRY(build(self));
    PSGD_TRY(ops->prepare(self->task));
    PSGD_TRY(check_memory(self));
    PSGD_TRY(allocate(self));
    if (psgd_optimizer_uses_activations(self->optimizer)) {
        PSGD_TRY(psgd_graph_watch(self->task->full.graph, observe, self));
    }
    self->by_closure = psgd_optimizer_needs_objective(self->optimizer) || config->settings.hv == HV_DIFFERENCE;
    self->total = config->settings.epochs * self->task->steps_per_epoch;
    if (config->settings.steps && config->settings.steps < self->total) self->total = config->settings.steps;
    return psgd__model_start(self->context, config->kind, self->task->full.graph, config->dtype,
                             (uint64_t)config->settings.seed, self->theta);
}

psgd_status psgd__trainer_create(const psgd_context *context, int count, const train_setting *settings,
                                 trainer **created)
{
    trainer *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a run");
    self->context = context;
    self->pairs = 1;
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
    psgd__config_free(&self->config);
    psgd__free(self->context, self->slabs);
    psgd__free(self->context, self->theta_list);
    psgd__free(self->context, self);
}

/* The settings of the checkpoint, followed by those given now. */
static psgd_status recreate(const checkpoint *file, int count, const train_setting *settings, trainer **created)
{
    train_setting all[TRAIN_MAX_SETTINGS];
    int used = 0;
    for (int k = 0; k < file->setting_count; k++) {
        bool replaced = false;
        for (int i = 0; i < count; i++) replaced = replaced || !strcmp(settings[i].name, file->settings[k].name);
        if (!replaced) all[used++] = file->settings[k];
    }
    for (int i = 0; i < count && used < TRAIN_MAX_SETTINGS; i++) all[used++] = settings[i];
    return psgd__trainer_create(file->context, used, all, created);
}

psgd_status psgd__trainer_resume(const psgd_context *context, const char *folder, int count,
                                 const train_setting *settings, trainer **created)
{
    checkpoint file;
    trainer *self = NULL;
    psgd_status status = psgd__checkpoint_open(context, folder, &file);
    if (status == PSGD_OK) status = recreate(&file, count, settings, &self);
    if (status == PSGD_OK) status = psgd__checkpoint_restore(&file, self);
    psgd__checkpoint_close(&file);
    if (status == PSGD_OK) {
        *created = self;
    } else {
        psgd__trainer_free(self);
    }
    return status;
}

train_state psgd__trainer_state(const trainer *self)
{
    return (train_state){self->now.step, self->config.settings.out, self->task->note};
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
