/* From a list of settings to a run that can start: sources, graphs, optimizer, memory. */
#include "core/memory.h"
#include "optim/optim.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVAL_BATCH = 250, LARGE_SAMPLE = 1 << 14 }; /* an evaluation of large samples takes no more than a step */

static bool in_table(const option_row *rows, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(rows[i].name, name)) return true;
    }
    return false;
}

/* Each setting to the list of the table that has its name first; what no table has is the optimizer's to refuse. */
static psgd_status sort_setting(trainer *self, const char *name, const char *value)
{
    if (!strcmp(name, "model")) return PSGD_OK;
    if (in_table(psgd__train_options, psgd__train_option_count, name)) {
        if (!strcmp(name, "seed")) PSGD_TRY(psgd_options_set(self->optimizer_options, name, value));
        return psgd_options_set(self->own_options, name, value);
    }
    bool of_model = in_table(psgd__model_options, psgd__model_option_count, name);
    return psgd_options_set(of_model ? self->model_list : self->optimizer_options, name, value);
}

static psgd_status read_settings(trainer *self, int count, const train_setting *list)
{
    text all = {.context = self->context};
    PSGD_TRY(psgd_options_create(self->context, &self->own_options));
    PSGD_TRY(psgd_options_create(self->context, &self->model_list));
    PSGD_TRY(psgd_options_create(self->context, &self->optimizer_options));
    for (int i = 0; i < count; i++) {
        if (strpbrk(list[i].name, "=\n") || strchr(list[i].value, '\n')) {
            psgd__text_free(&all);
            return psgd__fail(PSGD_ERR_ARGUMENT, "a setting must not contain a line break");
        }
        psgd__text_add(&all, "%s=%s\n", list[i].name, list[i].value);
        psgd_status status = sort_setting(self, list[i].name, list[i].value);
        if (status != PSGD_OK) {
            psgd__text_free(&all);
            return status;
        }
    }
    if (all.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the settings of a run");
    self->text = all.chars;
    option_table own = {psgd__train_options, psgd__train_option_count, &self->settings};
    option_table models = {psgd__model_options, psgd__model_option_count, &self->model_options};
    PSGD_TRY(psgd__options_read(self->own_options, &own, 1));
    PSGD_TRY(psgd__options_read(self->model_list, &models, 1));
    for (int i = 0; i < count; i++) {
        if (!strcmp(list[i].name, "model")) PSGD_TRY(psgd__model_find(list[i].value, &self->kind));
    }
    if (!self->kind) return psgd__fail(PSGD_ERR_ARGUMENT, "a run needs a model");
    if (!self->settings.data) return psgd__fail(PSGD_ERR_ARGUMENT, "a run needs --data, as in --data digits");
    self->dtype = self->settings.dtype == 1 ? PSGD_F64 : PSGD_F32;
    return PSGD_OK;
}

static psgd_status open_sources(trainer *self)
{
    const train_settings *s = &self->settings;
    source_settings wanted = {
        .seed = 1,
        .samples = s->samples,
        .height = s->height,
        .width = s->width,
        .holdout = s->holdout,
        .resize = s->resize,
        .threads = s->decode_threads,
        .cache = s->cache,
        .truth = s->truth,
        .subtract_mean = s->subtract_mean,
        .random_crop = s->random_crop,
        .mirror = s->mirror,
    };
    PSGD_TRY(psgd__source_open(self->context, s->data, SPLIT_TRAIN, &wanted, &self->train));
    wanted.training = self->train;
    PSGD_TRY(psgd__source_open(self->context, s->data, SPLIT_TEST, &wanted, &self->test));
    if (self->test->classes > self->train->classes || self->test->features != self->train->features) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "%s: the test samples have %lld classes and %lld numbers each, the training "
                          "samples %lld and %lld",
                          s->data, (long long)self->test->classes, (long long)self->test->features,
                          (long long)self->train->classes, (long long)self->train->features);
    }
    if (s->batch > self->train->count) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a batch of %lld is more than the %lld training samples of %s",
                          (long long)s->batch, (long long)self->train->count, s->data);
    }
    if (s->hv_batch > s->batch) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "hv-batch must be at most the batch of %lld, not %lld",
                          (long long)s->batch, (long long)s->hv_batch);
    }
    self->steps_per_epoch = self->train->count / s->batch;
    self->total = s->epochs * self->steps_per_epoch;
    if (s->steps && s->steps < self->total) self->total = s->steps;
    return PSGD_OK;
}

static psgd_status build_graph(trainer *self, int64_t n, bool penalised, train_graph *to)
{
    if (n == 0) return PSGD_OK;
    model_shape shape = {.ndim = self->train->ndim, .n = n, .classes = self->train->classes};
    model_settings settings = self->model_options;
    if (!penalised) settings.l2 = 0;
    for (int i = 0; i < shape.ndim; i++) shape.sample[i] = self->train->sample[i];
    to->n = n;
    return psgd__model_graph(self->context, self->kind, self->dtype, &shape, &settings, &to->graph, &to->nodes);
}

static psgd_status build_graphs(trainer *self)
{
    bool large = self->train->features > LARGE_SAMPLE && self->settings.batch < EVAL_BATCH;
    int64_t max = large ? self->settings.batch : EVAL_BATCH;
    int64_t each = self->test->count < max ? self->test->count : max;
    PSGD_TRY(build_graph(self, self->settings.batch, true, &self->full));
    bool partly = self->settings.hv_batch > 0 && self->settings.hv_batch < self->settings.batch;
    if (partly) PSGD_TRY(build_graph(self, self->settings.hv_batch, true, &self->part));
    PSGD_TRY(build_graph(self, each, false, &self->eval));
    return build_graph(self, self->test->count % each, false, &self->rest);
}

/* lr_epochs: steps of a number of epochs. lr_end: the factor for each epoch follows from where lr starts and ends. */
static psgd_status set_schedule(trainer *self)
{
    double end = self->settings.lr_end, start = psgd_optimizer_rate(self->optimizer);
    if (self->settings.lr_epochs > 0) {
        psgd_optimizer_free(self->optimizer);
        self->optimizer = NULL;
        PSGD_TRY(psgd_options_set(self->optimizer_options, "lr-schedule", "step"));
        return psgd_options_set_number(self->optimizer_options, "lr-every",
                                       (double)(self->settings.lr_epochs * self->steps_per_epoch));
    }
    if (!(end > 0)) return PSGD_OK;
    if (end > start) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "lr-end is %g and lr %g: it can only fall", end, start);
    }
    int64_t epochs = self->settings.epochs;
    double factor = epochs > 1 ? pow(end / start, 1 / (double)(epochs - 1)) : 1;
    psgd_optimizer_free(self->optimizer);
    self->optimizer = NULL;
    PSGD_TRY(psgd_options_set(self->optimizer_options, "lr-schedule", "step"));
    PSGD_TRY(psgd_options_set_number(self->optimizer_options, "lr-every", (double)self->steps_per_epoch));
    return psgd_options_set_number(self->optimizer_options, "lr-factor", factor);
}

static psgd_status make_optimizer(trainer *self)
{
    psgd_tensor tensors[64];
    const char *method = self->settings.optimizer;
    self->tensors = psgd_graph_parameter_count(self->full.graph);
    if (self->tensors > 64) return psgd__fail(PSGD_ERR_UNSUPPORTED, "a model of more than 64 matrices");
    for (int i = 0; i < self->tensors; i++) {
        tensors[i] = (psgd_tensor){.ndim = 2, .shape = psgd_graph_parameter_shape(self->full.graph, i)};
    }
    bool newton = !strcmp(method, "psgd-newton"), fisher = !strcmp(method, "psgd-fisher");
    if (newton || fisher) {
        method = "psgd";
        PSGD_TRY(psgd_options_set(self->optimizer_options, "criterion", newton ? "newton" : "fisher"));
    }
    return psgd_optimizer_create(self->context, method, self->tensors, tensors, self->dtype, self->optimizer_options,
                                 &self->optimizer);
}

static void *const *list_of(trainer *self, void ***list, char *slab, int64_t copies)
{
    size_t number = psgd_dtype_size(self->dtype);
    for (int i = 0; i < self->tensors; i++) {
        (*list)[i] = slab + (size_t)(copies * psgd_graph_parameter_offset(self->full.graph, i)) * number;
    }
    return *list;
}

static psgd_status make_room(trainer *self)
{
    int64_t number = (int64_t)psgd_dtype_size(self->dtype), features = self->train->features;
    int64_t max = self->eval.n > self->full.n ? self->eval.n : self->full.n;
    self->parameters = psgd_graph_parameters(self->full.graph);
    int64_t slab = (self->parameters * number + 63) / 64 * 64;
    self->slabs = psgd__alloc(self->context, slab * (2 + 2 * self->pairs + 2), 1);
    self->theta_list = psgd__alloc(self->context, 4 * self->tensors, sizeof(void *));
    self->x = psgd__alloc(self->context, features * max, sizeof *self->x);
    self->y = psgd__alloc(self->context, max, sizeof *self->y);
    self->order = psgd__alloc(self->context, self->train->count, sizeof *self->order);
    if (!self->slabs || !self->theta_list || !self->x || !self->y || !self->order) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a run that needs about %.2f GB",
                          psgd__trainer_need(self) / 1e9);
    }
    self->theta = self->slabs;
    self->gradient = self->theta + slab;
    self->v = self->gradient + slab;
    self->h = self->v + slab * (self->pairs + 1);
    self->gradient_list = self->theta_list + self->tensors;
    self->v_list = self->gradient_list + self->tensors;
    self->h_list = self->v_list + self->tensors;
    list_of(self, &self->theta_list, self->theta, 1);
    list_of(self, &self->gradient_list, self->gradient, 1);
    list_of(self, &self->v_list, self->v, self->pairs);
    list_of(self, &self->h_list, self->h, self->pairs);
    return PSGD_OK;
}

static psgd_status prepare(trainer *self, int count, const train_setting *list)
{
    PSGD_TRY(read_settings(self, count, list));
    PSGD_TRY(open_sources(self));
    PSGD_TRY(build_graphs(self));
    PSGD_TRY(make_optimizer(self));
    PSGD_TRY(set_schedule(self));
    if (!self->optimizer) PSGD_TRY(make_optimizer(self));
    self->pairs = self->optimizer->settings.fit.pairs > 0 ? self->optimizer->settings.fit.pairs : 1;
    PSGD_TRY(psgd__memory_check(psgd__trainer_need(self), "this run", "a smaller batch needs less"));
    PSGD_TRY(make_room(self));
    if (!strcmp(self->optimizer->kind->name, "kfac")) {
        PSGD_TRY(psgd_graph_watch(self->full.graph, psgd__train_observe, self));
    }
    self->by_closure = self->optimizer->kind->searches || self->settings.hv == HV_DIFFERENCE;
    self->averages = self->model_options.normalise;
    return psgd__model_start(self->context, self->kind, self->full.graph, self->dtype, (uint64_t)self->settings.seed,
                             self->theta);
}

psgd_status psgd__trainer_create(const psgd_context *context, int count, const train_setting *settings,
                                 trainer **created)
{
    trainer *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a run");
    self->context = context;
    self->ordered = -1;
    psgd_status status = prepare(self, count, settings);
    if (status != PSGD_OK) {
        psgd__trainer_free(self);
        return status;
    }
    *created = self;
    return PSGD_OK;
}

void psgd__trainer_free(trainer *self)
{
    if (!self) return;
    train_graph *const graphs[] = {&self->full, &self->part, &self->eval, &self->rest};
    for (int i = 0; i < 4; i++) psgd_graph_free(graphs[i]->graph);
    psgd_optimizer_free(self->optimizer);
    psgd__source_close(self->train);
    psgd__source_close(self->test);
    psgd_options_free(self->own_options);
    psgd_options_free(self->model_list);
    psgd_options_free(self->optimizer_options);
    void *const blocks[] = {self->text, self->slabs, self->theta_list, self->x, self->y, self->order};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) psgd__free(self->context, blocks[i]);
    psgd__free(self->context, self);
}

/* The settings of the checkpoint, with those given now after them, where they win. */
psgd_status psgd__trainer_resume(const psgd_context *context, const char *folder, int count,
                                 const train_setting *settings, trainer **created)
{
    train_setting all[TRAIN_MAX_SETTINGS];
    char *chars;
    int used = 0;
    PSGD_TRY(psgd__checkpoint_settings(context, folder, &chars));
    for (char *line = chars, *next; *line && used < TRAIN_MAX_SETTINGS; line = next) {
        char *equals = strchr(line, '='), *end = strchr(line, '\n');
        if (!equals || !end || equals > end) break;
        next = end + 1;
        *equals = *end = 0;
        bool replaced = false;
        for (int i = 0; i < count; i++) replaced = replaced || !strcmp(settings[i].name, line);
        if (!replaced) all[used++] = (train_setting){line, equals + 1};
    }
    for (int i = 0; i < count && used < TRAIN_MAX_SETTINGS; i++) all[used++] = settings[i];
    psgd_status status = psgd__trainer_create(context, used, all, created);
    if (status == PSGD_OK) status = psgd__checkpoint_read(*created, folder);
    if (status != PSGD_OK && *created) {
        psgd__trainer_free(*created);
        *created = NULL;
    }
    psgd__free(context, chars);
    return status;
}

int64_t psgd__trainer_step(const trainer *self)
{
    return self->step;
}

const char *psgd__trainer_folder(const trainer *self)
{
    return self->settings.out;
}
