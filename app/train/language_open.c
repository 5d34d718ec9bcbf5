/* Opening a run of the language model: from settings to a graph, an optimizer and a folder, new or gone on with. */
#include "train/language_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/memory.h"

enum { SLABS = 10 }; /* parameters, best, gradient, v and hv, and about as much for the optimizer and a checkpoint */

double psgd__language_run_bytes(const language_shape *shape)
{
    return psgd__language_bytes(shape) + SLABS * sizeof(float) * (double)psgd__language_parameters(shape);
}

/* Steps of training in one pass: batch columns of equal length, times words of each a step, the next word known. */
static int64_t steps_in(const language_shape *shape, const tokens *words)
{
    return (words->count / shape->batch - 1) / shape->times;
}

static psgd_status check_sizes(const corpus *source, const language_shape *shape)
{
    int64_t min = shape->batch * (shape->times + 1);
    if (steps_in(shape, &source->text[SPLIT_TRAIN]) < 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "the train text has %lld words; a batch of %lld with %lld steps back needs at least %lld",
                          (long long)source->text[SPLIT_TRAIN].count, (long long)shape->batch, (long long)shape->times,
                          (long long)min);
    }
    for (int i = SPLIT_VALID; i < SPLIT_COUNT; i++) {
        if (source->text[i].count >= 2) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT, "the %s text has one word; there is none to foretell",
                          psgd__split_names[i]);
    }
    return PSGD_OK;
}

psgd_status psgd__language_state_path(const language_run *self, int64_t step, text *path)
{
    *path = (text){.context = self->context};
    psgd__text_add(path, "%s/optimizer-%lld.state", self->folder, (long long)step);
    return path->failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the run '%s'", self->folder) : PSGD_OK;
}

static const char *decoder_text(const language_run *self)
{
    return self->shape.by_rows ? "untied, row-sparse" : self->shape.untied ? "untied" : "tied";
}

/* Method and settings as one line: what must be the same for a run to go on. */
static void describe(const language_run *self, const language_method *method, const char *options, char what[384])
{
    const language_settings *s = self->settings;
    snprintf(what, 384, "%s%s dropout=%g batch=%lld times=%lld hidden=%lld layers=%lld %s range=%g seed=%llu",
             method->name, options, s->shape.dropout, (long long)s->shape.batch, (long long)s->shape.times,
             (long long)s->shape.hidden, (long long)s->shape.layers, decoder_text(self), s->range,
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

static psgd_status make_optimizer(language_run *self, const language_method *method, const metrics_setting *more,
                                  int more_count)
{
    int count = psgd_graph_parameter_count(self->graph);
    psgd_tensor tensors[LANGUAGE_PARAMETERS];
    psgd_options *options;
    for (int i = 0; i < count; i++)
        tensors[i] = (psgd_tensor){.ndim = 2,
                                   .shape = psgd_graph_parameter_shape(self->graph, i),
                                   .rows = psgd_graph_max_rows(self->graph, i)};
    PSGD_TRY(set_options(self->context, method, more, more_count, self->settings->seed, &options));
    psgd_status status = psgd_optimizer_create(self->context, method->method, count, tensors, PSGD_F32, options,
                                               &self->optimizer);
    psgd_options_free(options);
    return status;
}

static psgd_status make_slabs(language_run *self)
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
    self->memory.mark.state_size = psgd_graph_state(self->graph, &state);
    self->memory.mark.parameters = size;
    self->memory.state = state;
    return PSGD_OK;
}

/* One word a line: what psgd generate needs of the text. */
static psgd_status write_vocabulary(const language_run *self)
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

static psgd_status start_log(language_run *self, const language_method *method, const metrics_setting *more,
                             int more_count)
{
    const language_settings *s = self->settings;
    char shown[6][32];
    metrics_setting settings[LANGUAGE_OPTIONS + LANGUAGE_MORE + 8];
    int count = 0;
    snprintf(shown[0], 32, "%lld", (long long)s->shape.words);
    snprintf(shown[1], 32, "%lld x %lld", (long long)s->shape.layers, (long long)s->shape.hidden);
    snprintf(shown[2], 32, "%lld x %lld", (long long)s->shape.batch, (long long)s->shape.times);
    snprintf(shown[3], 32, "%g", s->shape.dropout);
    snprintf(shown[4], 32, "%lld", (long long)psgd_graph_parameters(self->graph));
    settings[count++] = (metrics_setting){"words", shown[0]};
    settings[count++] = (metrics_setting){"layers x units", shown[1]};
    settings[count++] = (metrics_setting){"batch x steps back", shown[2]};
    settings[count++] = (metrics_setting){"dropout", shown[3]};
    settings[count++] = (metrics_setting){"parameters", shown[4]};
    settings[count++] = (metrics_setting){"decoder", decoder_text(self)};
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

static psgd_status resume(language_run *self, const language_mark *saved)
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
    PSGD_TRY(psgd__language_state_path(self, self->memory.mark.step, &path));
    psgd_status status = psgd_optimizer_load(self->optimizer, path.chars);
    psgd__text_free(&path);
    PSGD_TRY(status);
    return psgd__metrics_resume(self->context, self->folder, self->memory.mark.step, &self->log);
}

static bool has_file(const language_run *self, const char *name)
{
    text path = {.context = self->context};
    psgd__text_add(&path, "%s/%s", self->folder, name);
    bool has = !path.failed && access(path.chars, F_OK) == 0;
    psgd__text_free(&path);
    return has;
}

/* Without a checkpoint: a run that was stopped before its first one, which starts again, or none of ours. */
static psgd_status check_folder(const language_run *self)
{
    if (!has_file(self, "metrics.jsonl") || has_file(self, "vocabulary.txt")) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "'%s' has a run of something else; give another folder", self->folder);
}

psgd_status psgd__language_open(language_run *self, const language_method *method, const metrics_setting *more,
                                int more_count)
{
    language_mark *mark = &self->memory.mark;
    const language_shape *shape = &self->shape;
    char options[200] = "";
    int created;
    self->shape = self->settings->shape;
    self->shape.by_rows = shape->untied && method->by_rows && !self->settings->whole;
    PSGD_TRY(check_sizes(self->text, shape));
    PSGD_TRY(psgd__memory_check(psgd__language_run_bytes(shape), "this run",
                                "fewer words, hidden units or steps back, or a smaller batch, need less"));
    PSGD_TRY(psgd__language_graph(self->context, shape, false, &self->graph, &self->nodes));
    if (psgd_graph_parameter_count(self->graph) > LANGUAGE_PARAMETERS)
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "a language model of at most %d layers", LANGUAGE_PARAMETERS - 2);
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
    psgd_status status = psgd__language_load_mark(self->folder, &saved);
    if (status == PSGD_OK) return resume(self, &saved);
    if (status != PSGD_ERR_IO) return status;
    PSGD_TRY(check_folder(self));
    PSGD_TRY(psgd__folder_create(self->folder, &created));
    return start_log(self, method, more, more_count);
}
