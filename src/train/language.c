#include "train/language.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"

enum { MAX_PARAMETERS = 16, HEALTH_EVERY = 10 }; /* health: every so many entries of the log */

typedef struct run {
    const psgd_context *context;
    const corpus *text;
    const language_settings *settings;
    const char *folder;
    psgd_graph *graph;
    language_nodes nodes;
    psgd_optimizer *optimizer;
    metrics_log *log;
    language_memory memory; /* state is the graph's own */
    float *slabs;           /* theta, best, gradient, v, hv */
    void *theta[MAX_PARAMETERS], *gradient[MAX_PARAMETERS], *v[MAX_PARAMETERS], *hv[MAX_PARAMETERS];
    int64_t epoch_steps, total;
    double valid; /* of the last evaluation; NaN before */
} run;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Steps in one pass: batch columns of equal length, times words of each a step, the next word known. */
static int64_t steps_in(const language_shape *shape, const tokens *words)
{
    return (words->count / shape->batch - 1) / shape->times;
}

static psgd_status check_sizes(const corpus *source, const language_shape *shape)
{
    for (int i = 0; i < SPLIT_COUNT; i++) {
        if (steps_in(shape, &source->text[i]) >= 1) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "the %s text has %lld words; a batch of %lld with %lld steps back needs at least %lld",
                          psgd__split_names[i], (long long)source->text[i].count, (long long)shape->batch,
                          (long long)shape->times, (long long)(shape->batch * (shape->times + 1)));
    }
    return PSGD_OK;
}

static psgd_status check_room(const language_shape *shape)
{
    double need = psgd__language_bytes(shape, 10);
    double free_pages = (double)sysconf(_SC_PHYS_PAGES), page = (double)sysconf(_SC_PAGESIZE);
    if (free_pages <= 0 || page <= 0 || need <= free_pages * page) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NO_MEMORY,
                      "this run needs about %.1f GB of memory and the machine has %.1f; fewer words, hidden units or "
                      "steps back, or a smaller batch, need less",
                      need / 1e9, free_pages * page / 1e9);
}

/* tokens[t, j] <- word (step times + t) of column j, labels the word after it */
static void fill_batch(run *self, const tokens *from, int64_t step)
{
    const language_shape *shape = &self->settings->shape;
    float *words = psgd_graph_values(self->graph, self->nodes.tokens);
    float *labels = psgd_graph_values(self->graph, self->nodes.labels);
    int64_t length = from->count / shape->batch;
    for (int64_t t = 0; t < shape->times; t++) {
        for (int64_t j = 0; j < shape->batch; j++) {
            const int32_t *at = from->number + j * length + step * shape->times + t;
            words[t * shape->batch + j] = (float)at[0];
            labels[t * shape->batch + j] = (float)at[1];
        }
    }
}

/* The mean loss over a text, from a state of zero and without dropout. */
static psgd_status evaluate(run *self, corpus_split split, const float *theta, double *loss)
{
    const tokens *words = &self->text->text[split];
    int64_t steps = steps_in(&self->settings->shape, words);
    double sum = 0;
    psgd_graph_reset(self->graph);
    for (int64_t i = 0; i < steps; i++) {
        double part;
        fill_batch(self, words, i);
        PSGD_TRY(psgd_graph_loss(self->graph, theta, &part));
        psgd_graph_carry(self->graph);
        sum += part;
    }
    *loss = sum / (double)steps;
    return PSGD_OK;
}

static metrics_time time_of(const run *self)
{
    const language_mark *mark = &self->memory.mark;
    return (metrics_time){mark->step, (double)mark->step / (double)self->epoch_steps, mark->seconds};
}

static psgd_status log_loss(run *self, const char *split, double loss)
{
    metric values[4] = {{"loss", loss}, {"perplexity", exp(loss)}, {"lr", psgd_optimizer_rate(self->optimizer)}};
    int count = 3;
    if (!isnan(self->text->entropy)) values[count++] = (metric){"gap", loss - self->text->entropy};
    return psgd__metrics_point(self->log, time_of(self), split, values, count);
}

static psgd_status log_health(run *self)
{
    for (int i = 0; i < psgd_graph_parameter_count(self->graph); i++) {
        const psgd_precond *precond = psgd_optimizer_precond(self->optimizer, i);
        if (!precond) continue;
        double condition;
        PSGD_TRY(psgd_precond_condition(precond, &condition));
        metric values[] = {{"updates", (double)psgd_precond_updates(precond)},
                           {"skipped", (double)psgd_precond_skipped(precond)},
                           {"condition", condition}};
        PSGD_TRY(
            psgd__metrics_health(self->log, time_of(self), psgd_graph_parameter_name(self->graph, i), "", values, 3));
    }
    return PSGD_OK;
}

static psgd_status state_path(const run *self, int64_t step, text *path)
{
    *path = (text){.context = self->context};
    psgd__text_add(path, "%s/optimizer-%lld.state", self->folder, (long long)step);
    return path->failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the run '%s'", self->folder) : PSGD_OK;
}

/* The optimizer first, under a name with its step; the checkpoint that refers to it; then the old one goes. */
static psgd_status save(run *self)
{
    text path, old_path;
    language_mark before;
    int64_t old = psgd__language_load_mark(self->folder, &before) == PSGD_OK ? before.step : -1;
    if (old == self->memory.mark.step) return PSGD_OK;
    PSGD_TRY(state_path(self, self->memory.mark.step, &path));
    psgd_status status = psgd_optimizer_save(self->optimizer, path.chars);
    psgd__text_free(&path);
    PSGD_TRY(status);
    PSGD_TRY(psgd__language_save(self->context, &self->memory, self->folder));
    if (old < 0) return PSGD_OK;
    PSGD_TRY(state_path(self, old, &old_path));
    unlink(old_path.chars);
    psgd__text_free(&old_path);
    return PSGD_OK;
}

static psgd_status validate(run *self)
{
    language_mark *mark = &self->memory.mark;
    PSGD_TRY(evaluate(self, SPLIT_VALID, self->memory.theta, &self->valid));
    PSGD_TRY(log_loss(self, "valid", self->valid));
    PSGD_TRY(psgd_optimizer_validate(self->optimizer, self->valid));
    if (!(self->valid < mark->best)) return PSGD_OK;
    mark->best = self->valid;
    memcpy(self->memory.best, self->memory.theta, (size_t)mark->parameters * sizeof(float));
    return PSGD_OK;
}

static psgd_status train_step(run *self)
{
    language_mark *mark = &self->memory.mark;
    int64_t place = mark->step % self->epoch_steps;
    double loss, began = now();
    if (place == 0) psgd_graph_reset(self->graph);
    fill_batch(self, &self->text->text[SPLIT_TRAIN], place);
    psgd_graph_set_step(self->graph, self->settings->seed, (uint64_t)mark->step);
    if (psgd_optimizer_wants_product(self->optimizer)) {
        for (int i = 0; i < psgd_graph_parameter_count(self->graph); i++)
            PSGD_TRY(psgd_optimizer_draw(self->optimizer, i, self->v[i]));
        PSGD_TRY(
            psgd_graph_hessian(self->graph, self->memory.theta, self->v[0], self->gradient[0], self->hv[0], &loss));
    } else {
        PSGD_TRY(psgd_graph_gradient(self->graph, self->memory.theta, self->gradient[0], &loss));
    }
    psgd_graph_carry(self->graph);
    PSGD_TRY(psgd_optimizer_step(self->optimizer, self->theta, (const void *const *)self->gradient,
                                 (const void *const *)self->v, (const void *const *)self->hv));
    mark->step++;
    mark->seconds += now() - began;
    mark->recent_sum += loss;
    mark->recent_count++;
    return PSGD_OK;
}

/* The mean of the loss since the last entry. */
static psgd_status log_step(run *self)
{
    language_mark *mark = &self->memory.mark;
    double mean = mark->recent_sum / (double)mark->recent_count;
    mark->recent_sum = 0;
    mark->recent_count = 0;
    PSGD_TRY(log_loss(self, "train", mean));
    return mark->step / self->settings->log_every % HEALTH_EVERY == 0 ? log_health(self) : PSGD_OK;
}

static psgd_status train(run *self, language_watch watch, void *watch_data)
{
    language_mark *mark = &self->memory.mark;
    const language_settings *settings = self->settings;
    while (mark->step < self->total) {
        PSGD_TRY(train_step(self));
        if (mark->step % settings->log_every == 0) PSGD_TRY(log_step(self));
        bool epoch = mark->step % self->epoch_steps == 0;
        if (epoch) PSGD_TRY(validate(self));
        if (epoch || mark->step % settings->checkpoint_every == 0 || mark->step == self->total) PSGD_TRY(save(self));
        if (watch) watch(watch_data, mark->step, self->total);
    }
    return PSGD_OK;
}

/* The numbers of the table: validation at the end of what was made, test with the best model. */
static psgd_status finish(run *self, language_result *result)
{
    const language_mark *mark = &self->memory.mark;
    if (mark->step % self->epoch_steps != 0 || isnan(self->valid)) {
        PSGD_TRY(evaluate(self, SPLIT_VALID, self->memory.theta, &self->valid));
        if (mark->step % self->epoch_steps != 0) PSGD_TRY(log_loss(self, "valid", self->valid));
    }
    const float *theta = self->valid < mark->best ? self->memory.theta : self->memory.best;
    PSGD_TRY(evaluate(self, SPLIT_TEST, theta, &result->test_loss));
    result->steps = mark->step;
    result->skipped = psgd_optimizer_skipped(self->optimizer);
    result->epochs = time_of(self).epoch;
    result->seconds = mark->seconds;
    result->valid_loss = self->valid;
    metric values[6] = {{"valid_loss", self->valid},
                        {"valid_perplexity", exp(self->valid)},
                        {"test_loss", result->test_loss},
                        {"test_perplexity", exp(result->test_loss)},
                        {"skipped_steps", (double)result->skipped}};
    int count = 5;
    if (!isnan(self->text->entropy)) values[count++] = (metric){"test_gap", result->test_loss - self->text->entropy};
    return psgd__metrics_final(self->log, time_of(self), values, count);
}

/* Method and settings as one line: what must be the same for a run to go on. */
static void describe(const run *self, const language_method *method, const char *options, char what[384])
{
    const language_settings *s = self->settings;
    snprintf(what, 384, "%s%s dropout=%g batch=%lld times=%lld hidden=%lld layers=%lld %s range=%g seed=%llu",
             method->name, options, s->shape.dropout, (long long)s->shape.batch, (long long)s->shape.times,
             (long long)s->shape.hidden, (long long)s->shape.layers, s->shape.untied ? "untied" : "tied", s->range,
             (unsigned long long)s->seed);
}

static psgd_status set_options(const psgd_context *context, const language_method *method, const metrics_setting *more,
                               int more_count, uint64_t seed, psgd_options **options)
{
    psgd_options *made;
    PSGD_TRY(psgd_options_create(context, &made));
    psgd_status status = psgd_options_set_number(made, "seed", (double)seed);
    for (int i = 0; status == PSGD_OK && i < LANGUAGE_OPTIONS && method->options[i].name; i++)
        status = psgd_options_set(made, method->options[i].name, method->options[i].value);
    for (int i = 0; status == PSGD_OK && i < more_count; i++)
        status = psgd_options_set(made, more[i].name, more[i].value);
    if (status != PSGD_OK) {
        psgd_options_free(made);
        return status;
    }
    *options = made;
    return PSGD_OK;
}

static psgd_status make_optimizer(run *self, const language_method *method, const metrics_setting *more, int more_count)
{
    int count = psgd_graph_parameter_count(self->graph);
    psgd_tensor tensors[MAX_PARAMETERS];
    psgd_options *options;
    for (int i = 0; i < count; i++)
        tensors[i] = (psgd_tensor){.modes = 2, .shape = psgd_graph_parameter_shape(self->graph, i)};
    PSGD_TRY(set_options(self->context, method, more, more_count, self->settings->seed, &options));
    psgd_status status = psgd_optimizer_create(self->context, method->method, count, tensors, PSGD_F32, options,
                                               &self->optimizer);
    psgd_options_free(options);
    return status;
}

static psgd_status make_slabs(run *self)
{
    int64_t size = psgd_graph_parameters(self->graph);
    self->slabs = psgd__alloc(self->context, 5 * size, sizeof(float));
    if (!self->slabs) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld parameters", (long long)size);
    self->memory.theta = self->slabs;
    self->memory.best = self->slabs + size;
    for (int i = 0; i < psgd_graph_parameter_count(self->graph); i++) {
        float *at = self->slabs + psgd_graph_parameter_offset(self->graph, i);
        self->theta[i] = at;
        self->gradient[i] = at + 2 * size;
        self->v[i] = at + 3 * size;
        self->hv[i] = at + 4 * size;
    }
    void *state;
    self->memory.mark.state_numbers = psgd_graph_state(self->graph, &state);
    self->memory.mark.parameters = size;
    self->memory.state = state;
    return PSGD_OK;
}

/* One word a line: what psgd generate needs of the text. */
static psgd_status write_vocabulary(const run *self)
{
    text path = {.context = self->context};
    psgd__text_add(&path, "%s/vocabulary.txt", self->folder);
    if (path.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the run '%s'", self->folder);
    file_writer file;
    psgd_status status = psgd__file_create(self->context, path.chars, &file);
    psgd__text_free(&path);
    PSGD_TRY(status);
    for (int64_t i = 0; status == PSGD_OK && i < self->text->words.count; i++) {
        const char *word = psgd__vocabulary_word(&self->text->words, i);
        status = psgd__file_write(&file, word, (int64_t)strlen(word));
        if (status == PSGD_OK) status = psgd__file_write(&file, "\n", 1);
    }
    if (status == PSGD_OK) return psgd__file_publish(&file);
    psgd__file_abandon(&file);
    return status;
}

static psgd_status start_log(run *self, const language_method *method, const metrics_setting *more, int more_count)
{
    const language_settings *s = self->settings;
    char numbers[6][32];
    metrics_setting settings[LANGUAGE_OPTIONS + LANGUAGE_MORE + 8];
    int count = 0;
    snprintf(numbers[0], 32, "%lld", (long long)s->shape.words);
    snprintf(numbers[1], 32, "%lld x %lld", (long long)s->shape.layers, (long long)s->shape.hidden);
    snprintf(numbers[2], 32, "%lld x %lld", (long long)s->shape.batch, (long long)s->shape.times);
    snprintf(numbers[3], 32, "%g", s->shape.dropout);
    snprintf(numbers[4], 32, "%lld", (long long)psgd_graph_parameters(self->graph));
    settings[count++] = (metrics_setting){"words", numbers[0]};
    settings[count++] = (metrics_setting){"layers x units", numbers[1]};
    settings[count++] = (metrics_setting){"batch x steps back", numbers[2]};
    settings[count++] = (metrics_setting){"dropout", numbers[3]};
    settings[count++] = (metrics_setting){"parameters", numbers[4]};
    settings[count++] = (metrics_setting){"decoder", s->shape.untied ? "untied" : "tied"};
    for (int i = 0; i < LANGUAGE_OPTIONS && method->options[i].name; i++) settings[count++] = method->options[i];
    for (int i = 0; i < more_count; i++) settings[count++] = more[i];
    metrics_header header = {.run = method->name,
                             .method = method->method,
                             .task = s->task,
                             .seed = s->seed,
                             .settings = settings,
                             .setting_count = count};
    PSGD_TRY(psgd__metrics_create(self->context, self->folder, &header, &self->log));
    return write_vocabulary(self);
}

static psgd_status resume(run *self, const language_mark *saved)
{
    const language_mark *own = &self->memory.mark;
    if (saved->words != own->words || saved->vocabulary != own->vocabulary)
        return psgd__fail(PSGD_ERR_FORMAT,
                          "the checkpoint in '%s' has a vocabulary of %lld words that is not that of this text (%lld "
                          "words); give the same text, or another folder",
                          self->folder, (long long)saved->words, (long long)own->words);
    if (strncmp(saved->what, own->what, sizeof own->what) != 0)
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "the run in '%s' was made with '%.200s', not '%.200s'; give it another folder", self->folder,
                          saved->what, own->what);
    text path;
    PSGD_TRY(psgd__language_load(self->context, &self->memory, self->folder));
    PSGD_TRY(state_path(self, self->memory.mark.step, &path));
    psgd_status status = psgd_optimizer_load(self->optimizer, path.chars);
    psgd__text_free(&path);
    PSGD_TRY(status);
    return psgd__metrics_resume(self->context, self->folder, self->memory.mark.step, &self->log);
}

static psgd_status open_run(run *self, const language_method *method, const metrics_setting *more, int more_count)
{
    language_mark *mark = &self->memory.mark;
    const language_shape *shape = &self->settings->shape;
    char options[200] = "";
    int created;
    PSGD_TRY(check_sizes(self->text, shape));
    PSGD_TRY(check_room(shape));
    PSGD_TRY(psgd__language_graph(self->context, shape, false, &self->graph, &self->nodes));
    if (psgd_graph_parameter_count(self->graph) > MAX_PARAMETERS)
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "a language model of at most %d layers", MAX_PARAMETERS - 2);
    PSGD_TRY(make_slabs(self));
    PSGD_TRY(make_optimizer(self, method, more, more_count));
    psgd__language_start(self->graph, self->settings->range, self->settings->seed, self->memory.theta);
    for (int i = 0; i < more_count; i++) {
        size_t used = strlen(options);
        snprintf(options + used, sizeof options - used, " %s=%s", more[i].name, more[i].value);
    }
    describe(self, method, options, mark->what);
    mark->words = shape->words;
    mark->hidden = shape->hidden;
    mark->layers = shape->layers;
    mark->untied = shape->untied;
    mark->vocabulary = psgd__vocabulary_checksum(&self->text->words);
    mark->best = INFINITY;
    self->epoch_steps = steps_in(shape, &self->text->text[SPLIT_TRAIN]);
    self->total = self->settings->epochs * self->epoch_steps;
    if (self->settings->steps > 0 && self->settings->steps < self->total) self->total = self->settings->steps;

    language_mark saved;
    if (psgd__language_load_mark(self->folder, &saved) == PSGD_OK) return resume(self, &saved);
    PSGD_TRY(psgd__folder_create(self->folder, &created));
    return start_log(self, method, more, more_count);
}

psgd_status psgd__language_run(const psgd_context *context, const corpus *source, const language_settings *settings,
                               const language_method *method, const metrics_setting *more, int more_count,
                               const char *folder, language_watch watch, void *watch_data, language_result *result)
{
    run self = {.context = context, .text = source, .settings = settings, .folder = folder, .valid = NAN};
    psgd_status status = more_count <= LANGUAGE_MORE ? open_run(&self, method, more, more_count)
                                                     : psgd__fail(PSGD_ERR_ARGUMENT, "too many options");
    if (status == PSGD_OK) status = train(&self, watch, watch_data);
    if (status == PSGD_OK) status = finish(&self, result);
    psgd__metrics_close(self.log);
    psgd_optimizer_free(self.optimizer);
    psgd_graph_free(self.graph);
    psgd__free(context, self.slabs);
    return status;
}
