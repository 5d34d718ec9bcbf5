/* The loop: batches in an order that is a function of seed and epoch, steps, records, checkpoints. */
#include "core/file.h"
#include "core/memory.h"
#include "optim/optim.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put(psgd_dtype dtype, void *to, const float *from, int64_t count)
{
    if (dtype == PSGD_F32) {
        memcpy(to, from, (size_t)count * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < count; i++) ((double *)to)[i] = from[i];
}

psgd_status psgd__train_load(trainer *self, source *from, const train_graph *to, const int64_t *index)
{
    PSGD_TRY(from->read(from, to->n, index, self->x, self->y));
    put(self->dtype, psgd_graph_values(to->graph, to->nodes.x), self->x, from->features * to->n);
    put(self->dtype, psgd_graph_values(to->graph, to->nodes.y), self->y, to->n);
    return PSGD_OK;
}

static void announce(trainer *self, int64_t epoch, const int64_t *index)
{
    source *from = self->train;
    if (from->announce) from->announce(from, self->full.n, index, (uint64_t)self->settings.seed, (uint64_t)epoch);
}

static psgd_status load_batch(trainer *self)
{
    int64_t epoch = self->step / self->steps_per_epoch, within = self->step % self->steps_per_epoch;
    if (self->ordered != epoch) {
        psgd__source_shuffle((uint64_t)self->settings.seed, (uint64_t)epoch, self->train->count, self->order);
        self->ordered = epoch;
    }
    const int64_t *index = self->order + within * self->full.n;
    announce(self, epoch, index);
    PSGD_TRY(psgd__train_load(self, self->train, &self->full, index));
    if (self->part.graph) PSGD_TRY(psgd__train_load(self, self->train, &self->part, index));
    if (within + 1 < self->steps_per_epoch) announce(self, epoch, index + self->full.n);
    psgd_graph_set_step(self->full.graph, (uint64_t)self->settings.seed, (uint64_t)self->step);
    psgd_graph_set_step(self->part.graph, (uint64_t)self->settings.seed, (uint64_t)self->step);
    return PSGD_OK;
}

/* Copies between a list of tensors and pair k of a slab of pairs. */
static void gather_pair(trainer *self, void *const *list, int64_t k, char *slab)
{
    size_t number = psgd_dtype_size(self->dtype);
    for (int i = 0; i < self->tensors; i++) {
        const int64_t *shape = psgd_graph_parameter_shape(self->full.graph, i);
        size_t bytes = (size_t)(shape[0] * shape[1]) * number;
        size_t at = (size_t)psgd_graph_parameter_offset(self->full.graph, i) * number;
        memcpy(slab + at, (char *)list[i] + (size_t)k * bytes, bytes);
    }
}

static void scatter_pair(trainer *self, const char *slab, int64_t k, void *const *list)
{
    size_t number = psgd_dtype_size(self->dtype);
    for (int i = 0; i < self->tensors; i++) {
        const int64_t *shape = psgd_graph_parameter_shape(self->full.graph, i);
        size_t bytes = (size_t)(shape[0] * shape[1]) * number;
        size_t at = (size_t)psgd_graph_parameter_offset(self->full.graph, i) * number;
        memcpy((char *)list[i] + (size_t)k * bytes, slab + at, bytes);
    }
}

/* Gradient and Hv in one pass, or Hv of a part of the batch after the gradient of all of it. */
static psgd_status both(trainer *self, const void *theta, const void *v, void *gradient, void *h, double *loss)
{
    if (!self->part.graph) return psgd_graph_hessian(self->full.graph, theta, v, gradient, h, loss);
    double other;
    PSGD_TRY(psgd_graph_hessian(self->part.graph, theta, v, gradient, h, &other));
    return psgd_graph_gradient(self->full.graph, theta, gradient, loss);
}

static psgd_status own_step(trainer *self, double *loss)
{
    bool products = psgd_optimizer_wants_product(self->optimizer);
    if (!products) {
        PSGD_TRY(psgd_graph_gradient(self->full.graph, self->theta, self->gradient, loss));
    } else {
        size_t bytes = (size_t)self->parameters * psgd_dtype_size(self->dtype);
        char *one_v = self->v + (size_t)self->pairs * bytes, *one_h = self->h + (size_t)self->pairs * bytes;
        for (int i = 0; i < self->tensors; i++) PSGD_TRY(psgd_optimizer_draw(self->optimizer, i, self->v_list[i]));
        for (int64_t k = 0; k < self->pairs; k++) {
            gather_pair(self, self->v_list, k, one_v);
            PSGD_TRY(both(self, self->theta, one_v, self->gradient, one_h, loss));
            scatter_pair(self, one_h, k, self->h_list);
        }
    }
    return psgd_optimizer_step(self->optimizer, self->theta_list, (const void *const *)self->gradient_list,
                               products ? (const void *const *)self->v_list : NULL,
                               products ? (const void *const *)self->h_list : NULL);
}

/* The optimizer's own calls, for methods that search and for differences of gradients. */
static int closure_gradient(void *data, const void *const *theta, double *loss, void *const *gradient)
{
    trainer *self = data;
    gather_pair(self, (void *const *)theta, 0, self->v);
    if (psgd_graph_gradient(self->full.graph, self->v, self->gradient, loss) != PSGD_OK) return 1;
    scatter_pair(self, self->gradient, 0, gradient);
    return 0;
}

static int closure_product(void *data, const void *const *theta, const void *const *v, double *loss,
                           void *const *gradient, void *const *h)
{
    trainer *self = data;
    char *one_v = self->v + (size_t)self->parameters * psgd_dtype_size(self->dtype);
    gather_pair(self, (void *const *)theta, 0, self->v);
    gather_pair(self, (void *const *)v, 0, one_v);
    if (both(self, self->v, one_v, self->gradient, self->h, loss) != PSGD_OK) return 1;
    scatter_pair(self, self->gradient, 0, gradient);
    scatter_pair(self, self->h, 0, h);
    return 0;
}

/* What kfac makes its factors of. One that is not finite is not taken; the step that has it is skipped anyhow. */
void psgd__train_observe(void *data, int parameter, int64_t count, const void *inputs, const void *gradients)
{
    trainer *self = data;
    (void)psgd_optimizer_observe(self->optimizer, parameter, count, inputs, gradients);
}

static psgd_status take_step(trainer *self, double *loss)
{
    PSGD_TRY(load_batch(self));
    psgd_status status = self->by_closure ? psgd_optimizer_iterate(self->optimizer, self->theta_list, loss)
                                          : own_step(self, loss);
    if (status != PSGD_OK) return psgd__fail_in(status, "step %lld", (long long)self->step);
    if (self->averages) psgd_graph_carry(self->full.graph);
    self->step++;
    return PSGD_OK;
}

/* Samples whose class is not the first, or not among the first five. Of equals the one with the lower number comes
 * first. */
static void count_errors(const trainer *self, const train_graph *g, double *wrong, double *wrong5)
{
    const int64_t *shape;
    psgd_graph_shape(g->graph, g->nodes.output, &shape);
    const void *values = psgd_graph_values(g->graph, g->nodes.output);
    for (int64_t j = 0; j < g->n; j++) {
#define LOGIT(i)                                                                                                       \
    (self->dtype == PSGD_F64 ? ((const double *)values)[(i)*g->n + j] : (double)((const float *)values)[(i)*g->n + j])
        int64_t label = (int64_t)self->y[j], before = 0;
        if (shape[0] == 1) {
            *wrong += (LOGIT(0) > 0) != (label == 1);
            continue;
        }
        double own = LOGIT(label);
        for (int64_t i = 0; i < shape[0]; i++) before += LOGIT(i) > own || (i < label && LOGIT(i) >= own);
#undef LOGIT
        *wrong += before > 0 || isnan(own);
        *wrong5 += before > 4 || isnan(own);
    }
}

/* Moving averages of the graph that trains, for one that does not. */
static void share_averages(const trainer *self, const train_graph *to)
{
    void *from, *state;
    if (!self->averages || !to->graph) return;
    int64_t size = psgd_graph_state(self->full.graph, &from);
    psgd_graph_state(to->graph, &state);
    memcpy(state, from, (size_t)size * psgd_dtype_size(self->dtype));
}

static void announce_test(trainer *self, int64_t at)
{
    int64_t index[256], left = self->test->count - at, n = left >= self->eval.n ? self->eval.n : self->rest.n;
    if (!self->test->announce || left <= 0) return;
    for (int64_t j = 0; j < n; j++) index[j] = at + j;
    self->test->announce(self->test, n, index, 0, 0);
}

psgd_status psgd__trainer_evaluate(trainer *self, train_score *score)
{
    double sum = 0, wrong = 0, wrong5 = 0, own;
    int64_t count = self->test->count;
    share_averages(self, &self->eval);
    share_averages(self, &self->rest);
    for (int64_t at = 0; at < count;) {
        const train_graph *g = count - at >= self->eval.n ? &self->eval : &self->rest;
        int64_t index[256];
        for (int64_t j = 0; j < g->n; j++) index[j] = at + j;
        PSGD_TRY(psgd__train_load(self, self->test, g, index));
        announce_test(self, at + g->n);
        PSGD_TRY(psgd_graph_loss(g->graph, self->theta, &own));
        sum += own * (double)g->n;
        if (self->test->classes > 1) count_errors(self, g, &wrong, &wrong5);
        at += g->n;
    }
    score->loss = sum / (double)count;
    score->error = self->test->classes > 1 ? wrong / (double)count : NAN;
    score->top5_error = self->test->classes > 5 ? wrong5 / (double)count : NAN;
    return PSGD_OK;
}

train_reading psgd__trainer_reading(const trainer *self)
{
    const source *first = self->train->passed_over ? self->train : self->test;
    return (train_reading){self->train->waited, self->train->passed_over + self->test->passed_over, first->first_bad};
}

typedef struct sitting {
    trainer *self;
    const train_watch *watch;
    metrics_log *log;
    double began;
} sitting;

static metrics_time when(const sitting *s)
{
    return (metrics_time){s->self->step, (double)s->self->step / (double)s->self->steps_per_epoch,
                          s->self->seconds + now() - s->began};
}

static int add_metric(metric *to, int count, const char *name, double value)
{
    if (!isfinite(value)) return count;
    to[count] = (metric){name, value};
    return count + 1;
}

static psgd_status write_final(sitting *s, const train_score *score)
{
    trainer *self = s->self;
    metric last[8] = {{"test_loss", score->loss}};
    int count = add_metric(last, 1, "test_error", score->error);
    count = add_metric(last, count, "test_top5_error", score->top5_error);
    if (self->train->announce) {
        train_reading reading = psgd__trainer_reading(self);
        last[count++] = (metric){"waited_seconds", reading.waited};
        last[count++] = (metric){"passed_over", (double)reading.passed_over};
    }
    return psgd__metrics_final(s->log, when(s), last, count);
}

static psgd_status end_epoch(sitting *s)
{
    trainer *self = s->self;
    train_score score;
    PSGD_TRY(psgd__trainer_evaluate(self, &score));
    PSGD_TRY(psgd_optimizer_validate(self->optimizer, score.loss));
    metric values[8] = {{"loss", score.loss}, {"lr", psgd_optimizer_rate(self->optimizer)}};
    int count = add_metric(values, 2, "error", score.error);
    count = add_metric(values, count, "accuracy", 1 - score.error);
    count = add_metric(values, count, "top5_accuracy", 1 - score.top5_error);
    if (s->log) PSGD_TRY(psgd__metrics_point(s->log, when(s), "test", values, count));
    if (s->watch && s->watch->epoch) {
        int64_t epoch = self->step / self->steps_per_epoch;
        double train = self->sums.in_epoch ? self->sums.epoch / (double)self->sums.in_epoch : NAN;
        s->watch->epoch(s->watch->data, epoch, train, score.loss, score.error, when(s).seconds);
    }
    self->sums.epoch = 0;
    self->sums.in_epoch = 0;
    return self->step < self->total || !s->log ? PSGD_OK : write_final(s, &score);
}

/* What follows a step: records first, then the checkpoint that they belong to. */
static psgd_status after_step(sitting *s, double loss, bool stopping)
{
    trainer *self = s->self;
    bool whole = self->step % self->steps_per_epoch == 0 || self->step == self->total;
    train_sums *sums = &self->sums;
    sums->record += loss;
    sums->epoch += loss;
    sums->recorded++;
    sums->in_epoch++;
    if (s->log && (self->step % self->settings.log_every == 0 || whole)) {
        train_reading reading = psgd__trainer_reading(self);
        metric values[] = {{"loss", sums->record / (double)sums->recorded},
                           {"waited_seconds", reading.waited},
                           {"passed_over", (double)reading.passed_over}};
        PSGD_TRY(psgd__metrics_point(s->log, when(s), "train", values, self->train->announce ? 3 : 1));
        sums->record = 0;
        sums->recorded = 0;
    }
    if (whole) PSGD_TRY(end_epoch(s));
    int64_t every = self->settings.checkpoint_every;
    bool due = every > 0 ? self->step % every == 0 || self->step == self->total : whole;
    return s->log && (due || stopping) ? psgd__checkpoint_write(self, when(s).seconds) : PSGD_OK;
}

static psgd_status open_log(trainer *self, metrics_log **log)
{
    const char *folder = self->settings.out;
    if (!folder) return PSGD_OK;
    if (self->resumed) return psgd__metrics_resume(self->context, folder, self->step, log);
    metrics_setting settings[TRAIN_MAX_SETTINGS + 1];
    char path[4096], classes[24];
    int created;
    snprintf(path, sizeof path, "%s/%s", folder, CHECKPOINT_FILE);
    if (access(path, F_OK) == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "there is a run in %s already; psgd resume %s goes on with it", folder,
                          folder);
    }
    PSGD_TRY(psgd__folder_create(folder, &created));
    char *copy = psgd__strdup(self->context, self->text);
    int count = 0;
    if (!copy) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the settings of a run");
    for (char *line = copy, *next; *line && count < TRAIN_MAX_SETTINGS; line = next) {
        char *equals = strchr(line, '='), *end = strchr(line, '\n');
        next = end + 1;
        *equals = *end = 0;
        settings[count++] = (metrics_setting){line, equals + 1};
    }
    snprintf(classes, sizeof classes, "%lld", (long long)self->train->classes);
    if (self->train->classes > 1) settings[count++] = (metrics_setting){"classes", classes};
    const train_settings *set = &self->settings;
    metrics_header header = {.run = set->name ? set->name : folder,
                             .method = self->settings.optimizer,
                             .task = set->task ? set->task : self->kind->name,
                             .seed = (uint64_t)self->settings.seed,
                             .settings = settings,
                             .setting_count = count};
    psgd_status status = psgd__metrics_create(self->context, folder, &header, log);
    psgd__free(self->context, copy);
    return status;
}

static psgd_status sit(sitting *s, bool *stopped)
{
    trainer *self = s->self;
    if (s->log && !self->resumed) PSGD_TRY(psgd__checkpoint_write(self, 0));
    while (self->step < self->total && !*stopped) {
        double loss;
        PSGD_TRY(take_step(self, &loss));
        *stopped = s->watch && s->watch->stop && *s->watch->stop;
        PSGD_TRY(after_step(s, loss, *stopped));
        if (s->watch && s->watch->step) s->watch->step(s->watch->data, self->step, self->total, loss);
    }
    *stopped = *stopped && self->step < self->total;
    return PSGD_OK;
}

/* A run that was stopped and is now to end where it is, or before, has no last record yet. */
static psgd_status close_run(sitting *s)
{
    trainer *self = s->self;
    metrics_run *run;
    train_score score;
    if (!self->settings.out || !self->resumed) return PSGD_OK;
    PSGD_TRY(psgd__metrics_read(self->context, self->settings.out, &run));
    bool finished = run->finished;
    psgd__metrics_free(run);
    if (finished) return PSGD_OK;
    PSGD_TRY(open_log(self, &s->log));
    psgd_status status = psgd__trainer_evaluate(self, &score);
    if (status == PSGD_OK) status = write_final(s, &score);
    psgd__metrics_close(s->log);
    return status;
}

psgd_status psgd__trainer_run(trainer *self, const train_watch *watch, bool *stopped)
{
    sitting s = {.self = self, .watch = watch, .began = now()};
    *stopped = false;
    if (self->by_closure) {
        psgd_objective objective = {.gradient = closure_gradient, .data = self};
        if (self->settings.hv == HV_EXACT) objective.product = closure_product;
        PSGD_TRY(psgd_optimizer_bind(self->optimizer, &objective));
    }
    psgd_status status = PSGD_OK;
    if (self->step < self->total) {
        PSGD_TRY(open_log(self, &s.log));
        status = sit(&s, stopped);
        psgd__metrics_close(s.log);
    } else {
        status = close_run(&s);
    }
    if (status == PSGD_OK && !*stopped && self->settings.out) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", self->settings.out, WEIGHTS_FILE);
        status = psgd__trainer_save_weights(self, path);
    }
    return status;
}
