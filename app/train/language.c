#include "train/language_run.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/memory.h"

enum { HEALTH_EVERY = 10 }; /* every so many entries of the log */

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* tokens[t, j] <- word (step times + t) of column j, labels the word after it. Columns are length words apart; where a
 * column or the text is at its end, nothing counts. Returns how many do. */
static int64_t fill_batch(language_run *self, const tokens *from, int64_t length, int64_t step)
{
    const language_shape *shape = &self->shape;
    float *words = psgd_graph_values(self->graph, self->nodes.tokens);
    float *labels = psgd_graph_values(self->graph, self->nodes.labels);
    int64_t counted = 0;
    for (int64_t t = 0; t < shape->times; t++) {
        for (int64_t j = 0; j < shape->batch; j++) {
            int64_t at = step * shape->times + t, place = j * length + at, to = t * shape->batch + j;
            bool counts = at < length && place + 1 < from->count;
            words[to] = counts ? (float)from->number[place] : 0;
            labels[to] = counts ? (float)from->number[place + 1] : -1;
            counted += counts;
        }
    }
    return counted;
}

/* The mean loss over all words of a text but the first, from a state of zero and without dropout. */
static psgd_status evaluate(language_run *self, corpus_split split, const float *theta, double *loss)
{
    const tokens *words = &self->text->text[split];
    int64_t batch = self->shape.batch, length = (words->count - 1 + batch - 1) / batch;
    double sum = 0;
    psgd_graph_reset(self->graph);
    for (int64_t i = 0; i * self->shape.times < length; i++) {
        double part;
        int64_t counted = fill_batch(self, words, length, i);
        PSGD_TRY(psgd_graph_loss(self->graph, theta, &part));
        psgd_graph_carry(self->graph);
        sum += part * (double)counted;
    }
    *loss = sum / (double)(words->count - 1);
    return PSGD_OK;
}

static metrics_time time_of(const language_run *self)
{
    const language_mark *mark = &self->memory.mark;
    return (metrics_time){mark->step, (double)mark->step / (double)self->epoch_steps, mark->seconds};
}

static psgd_status log_loss(language_run *self, const char *split, double loss)
{
    metric values[4] = {{"loss", loss}, {"perplexity", exp(loss)}, {"lr", psgd_optimizer_rate(self->optimizer)}};
    int count = 3;
    if (!isnan(self->text->entropy)) values[count++] = (metric){"gap", loss - self->text->entropy};
    return psgd__metrics_point(self->log, time_of(self), split, values, count);
}

static psgd_status log_health(language_run *self)
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

/* The optimizer first, under a name with its step; the checkpoint that refers to it; then the old one goes. */
static psgd_status save(language_run *self)
{
    text path, old_path;
    language_mark before;
    int64_t old = psgd__language_load_mark(self->folder, &before) == PSGD_OK ? before.step : -1;
    if (old == self->memory.mark.step) return PSGD_OK;
    PSGD_TRY(psgd__language_state_path(self, self->memory.mark.step, &path));
    psgd_status status = psgd_optimizer_save(self->optimizer, path.chars);
    psgd__text_free(&path);
    PSGD_TRY(status);
    PSGD_TRY(psgd__language_save(self->context, &self->memory, self->folder));
    if (old < 0) return PSGD_OK;
    PSGD_TRY(psgd__language_state_path(self, old, &old_path));
    unlink(old_path.chars);
    psgd__text_free(&old_path);
    return PSGD_OK;
}

static psgd_status validate(language_run *self)
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

/* v for the rows that take part, then gradient and Hv, or the gradient alone. */
static psgd_status differentiate(language_run *self, const psgd_rows *const *rows, double *loss)
{
    const float *theta = self->memory.theta;
    if (!psgd_optimizer_wants_product(self->optimizer))
        return psgd_graph_gradient(self->graph, theta, self->gradient[0], loss);
    for (int i = 0; i < psgd_graph_parameter_count(self->graph); i++) {
        PSGD_TRY(rows[i] ? psgd_optimizer_draw_rows(self->optimizer, i, rows[i], self->v[i])
                         : psgd_optimizer_draw(self->optimizer, i, self->v[i]));
    }
    return psgd_graph_hessian(self->graph, theta, self->v[0], self->gradient[0], self->hv[0], loss);
}

static psgd_status train_step(language_run *self)
{
    language_mark *mark = &self->memory.mark;
    const tokens *words = &self->text->text[SPLIT_TRAIN];
    int64_t place = mark->step % self->epoch_steps;
    double loss, began = now();
    psgd_rows found;
    const psgd_rows *rows[LANGUAGE_PARAMETERS] = {NULL};
    if (place == 0) psgd_graph_reset(self->graph);
    fill_batch(self, words, words->count / self->shape.batch, place);
    psgd_graph_set_step(self->graph, self->settings->seed, (uint64_t)mark->step);
    if (self->shape.by_rows) {
        PSGD_TRY(psgd_graph_rows(self->graph, 0, &found));
        rows[0] = &found;
    }
    PSGD_TRY(differentiate(self, rows, &loss));
    psgd_graph_carry(self->graph);
    PSGD_TRY(psgd_optimizer_step_rows(self->optimizer, self->theta, rows, (const void *const *)self->gradient,
                                      (const void *const *)self->v, (const void *const *)self->hv));
    mark->step++;
    mark->seconds += now() - began;
    mark->recent_sum += loss;
    mark->recent_count++;
    return PSGD_OK;
}

/* The mean of the loss since the last entry. */
static psgd_status log_step(language_run *self)
{
    language_mark *mark = &self->memory.mark;
    double mean = mark->recent_sum / (double)mark->recent_count;
    mark->recent_sum = 0;
    mark->recent_count = 0;
    PSGD_TRY(log_loss(self, "train", mean));
    return mark->step / self->settings->log_every % HEALTH_EVERY == 0 ? log_health(self) : PSGD_OK;
}

static psgd_status train(language_run *self, language_watch watch, void *watch_data)
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
static psgd_status finish(language_run *self, language_result *result)
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

psgd_status psgd__language_run(const psgd_context *context, const corpus *source, const language_settings *settings,
                               const language_method *method, const metrics_setting *more, int more_count,
                               const char *folder, language_watch watch, void *watch_data, language_result *result)
{
    language_run self = {.context = context, .text = source, .settings = settings, .folder = folder, .valid = NAN};
    psgd_status status = more_count <= LANGUAGE_MORE ? psgd__language_open(&self, method, more, more_count)
                                                     : psgd__fail(PSGD_ERR_ARGUMENT, "too many options");
    if (status == PSGD_OK) status = train(&self, watch, watch_data);
    if (status == PSGD_OK) status = finish(&self, result);
    psgd__metrics_close(self.log);
    psgd_optimizer_free(self.optimizer);
    psgd_graph_free(self.graph);
    psgd__free(context, self.slabs);
    return status;
}
