/* Labelled samples: tables, images and sequences. Each epoch visits them in an order that is a function of the seed and
 * the epoch; the test split is both what schedules follow and what the end is measured on. */
#include "train/task.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "data/source.h"
#include "data/text/corpus.h"

/* Evaluations have batches of this size, but for large samples, where they take no more memory than a step. */
enum { EVAL_BATCH = 250, LARGE_SAMPLE = 1 << 14 };

typedef struct samples {
    task base;
    source *train, *test;
    train_graph eval, rest;  /* rest: what is left of the test split */
    float *x, *y;            /* a batch as the source gives it */
    int64_t *order, ordered; /* of the epoch ordered; -1: of none yet */
} samples;

static psgd_status open_splits(samples *self)
{
    const train_config *config = self->base.config;
    const train_settings *s = &config->settings;
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
    if (psgd__corpus_is_name(s->data)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s takes labelled samples; %s is a text, for psgd train lm",
                          config->kind->name, s->data);
    }
    PSGD_TRY(psgd__source_open(config->context, s->data, SPLIT_TRAIN, &wanted, &self->train));
    wanted.training = self->train;
    PSGD_TRY(psgd__source_open(config->context, s->data, SPLIT_TEST, &wanted, &self->test));
    const source *train = self->train, *test = self->test;
    if (test->classes > train->classes || test->features != train->features) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "%s: the test samples have %lld classes and %lld values each, the training samples %lld and "
                          "%lld",
                          s->data, (long long)test->classes, (long long)test->features, (long long)train->classes,
                          (long long)train->features);
    }
    if (s->batch > train->count) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a batch of %lld is more than the %lld training samples of %s",
                          (long long)s->batch, (long long)train->count, s->data);
    }
    return PSGD_OK;
}

static psgd_status samples_open(const train_config *config, task **opened)
{
    samples *self = psgd__alloc(config->context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a run");
    self->base = (task){.ops = &psgd__task_samples, .config = config, .carries = config->model.normalise};
    self->ordered = -1;
    *opened = &self->base;
    PSGD_TRY(open_splits(self));
    const source *train = self->train;
    self->base.shape = (model_shape){.ndim = train->ndim, .classes = train->classes};
    memcpy(self->base.shape.sample, train->sample, (size_t)train->ndim * sizeof train->sample[0]);
    self->base.steps_per_epoch = train->count / config->settings.batch;
    if (train->classes > 1) psgd__task_fact(&self->base, "classes", "%lld", (long long)train->classes);
    return PSGD_OK;
}

static psgd_status samples_prepare(task *base)
{
    samples *self = (samples *)base;
    const psgd_context *context = base->config->context;
    int64_t batch = base->full.n, features = self->train->features, count = self->test->count;
    int64_t max = features > LARGE_SAMPLE && batch < EVAL_BATCH ? batch : EVAL_BATCH, each = count < max ? count : max;
    PSGD_TRY(psgd__task_graph(base, each, false, false, &self->eval));
    PSGD_TRY(psgd__task_graph(base, count % each, false, false, &self->rest));
    int64_t room = each > batch ? each : batch;
    self->x = psgd__alloc(context, features * room, sizeof *self->x);
    self->y = psgd__alloc(context, room, sizeof *self->y);
    self->order = psgd__alloc(context, self->train->count, sizeof *self->order);
    if (self->x && self->y && self->order) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for batches of %lld samples", (long long)room);
}

static void samples_close(task *base)
{
    samples *self = (samples *)base;
    const psgd_context *context = base->config->context;
    psgd_graph_free(self->eval.graph);
    psgd_graph_free(self->rest.graph);
    psgd__source_close(self->train);
    psgd__source_close(self->test);
    psgd__free(context, self->x);
    psgd__free(context, self->y);
    psgd__free(context, self->order);
    psgd__free(context, self);
}

static void put(psgd_dtype dtype, void *to, const float *from, int64_t count)
{
    if (dtype == PSGD_F32) {
        memcpy(to, from, (size_t)count * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < count; i++) ((double *)to)[i] = from[i];
}

static psgd_status read_into(samples *self, source *from, const train_graph *to, const int64_t *index)
{
    psgd_dtype dtype = self->base.config->dtype;
    PSGD_TRY(from->read(from, to->n, index, self->x, self->y));
    put(dtype, psgd_graph_values(to->graph, to->nodes.x), self->x, from->features * to->n);
    put(dtype, psgd_graph_values(to->graph, to->nodes.y), self->y, to->n);
    return PSGD_OK;
}

static psgd_status samples_load(task *base, int64_t step)
{
    samples *self = (samples *)base;
    source *from = self->train;
    uint64_t seed = (uint64_t)base->config->settings.seed;
    int64_t epoch = step / base->steps_per_epoch, within = step % base->steps_per_epoch, n = base->full.n;
    if (self->ordered != epoch) {
        psgd__source_shuffle(seed, (uint64_t)epoch, from->count, self->order);
        self->ordered = epoch;
    }
    const int64_t *index = self->order + within * n;
    if (from->announce) from->announce(from, n, index, seed, (uint64_t)epoch);
    PSGD_TRY(read_into(self, from, &base->full, index));
    if (base->part.graph) PSGD_TRY(read_into(self, from, &base->part, index));
    bool more = within + 1 < base->steps_per_epoch;
    if (from->announce && more) from->announce(from, n, index + n, seed, (uint64_t)epoch);
    return PSGD_OK;
}

/* Samples whose class is not the first, or not among the first five; of equals the one with the lower number comes
 * first. */
static void count_errors(const samples *self, const train_graph *g, double *wrong, double *wrong5)
{
    const int64_t *shape;
    bool is_double = self->base.config->dtype == PSGD_F64;
    psgd_graph_shape(g->graph, g->nodes.output, &shape);
    const void *values = psgd_graph_values(g->graph, g->nodes.output);
    for (int64_t j = 0; j < g->n; j++) {
#define LOGIT(i) (is_double ? ((const double *)values)[(i)*g->n + j] : (double)((const float *)values)[(i)*g->n + j])
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

/* The batch of the test split from at, which has as many samples as the graph returned. */
static const train_graph *test_batch(const samples *self, int64_t at, int64_t index[EVAL_BATCH])
{
    const train_graph *g = self->test->count - at >= self->eval.n ? &self->eval : &self->rest;
    for (int64_t j = 0; j < g->n; j++) index[j] = at + j;
    return g;
}

static psgd_status samples_score(task *base, bool is_test, const void *theta, train_score *score)
{
    (void)is_test; /* there are two splits */
    samples *self = (samples *)base;
    source *test = self->test;
    double sum = 0, wrong = 0, wrong5 = 0, own;
    int64_t index[EVAL_BATCH], classes = base->config->kind->unlabelled ? 0 : test->classes;
    psgd__task_share_state(base, &base->full, &self->eval);
    psgd__task_share_state(base, &base->full, &self->rest);
    for (int64_t at = 0; at < test->count;) {
        const train_graph *g = test_batch(self, at, index);
        PSGD_TRY(read_into(self, test, g, index));
        at += g->n;
        if (test->announce && at < test->count) test->announce(test, test_batch(self, at, index)->n, index, 0, 0);
        PSGD_TRY(psgd_graph_loss(g->graph, theta, &own));
        sum += own * (double)g->n;
        if (classes > 1) count_errors(self, g, &wrong, &wrong5);
    }
    double count = (double)test->count;
    score->loss = sum / count;
    score->error = classes > 1 ? wrong / count : NAN;
    score->top5_error = classes > 5 ? wrong5 / count : NAN;
    score->perplexity = NAN;
    return PSGD_OK;
}

static train_reading samples_reading(const task *base)
{
    const samples *self = (const samples *)base;
    const source *first = self->train->passed_over ? self->train : self->test;
    return (train_reading){self->train->waited, self->train->passed_over + self->test->passed_over, first->first_bad};
}

static int add_metric(metric *to, int count, const char *name, double value)
{
    if (!isfinite(value)) return count;
    to[count] = (metric){name, value};
    return count + 1;
}

/* How reading went, where the source reads ahead. */
static int add_reading(const task *base, metric *to, int count)
{
    if (!((const samples *)base)->train->announce) return count;
    train_reading reading = samples_reading(base);
    to[count] = (metric){"waited_seconds", reading.waited};
    to[count + 1] = (metric){"passed_over", (double)reading.passed_over};
    return count + 2;
}

static int samples_point(const task *base, bool training, const train_score *score, double rate, metric *to)
{
    to[0] = (metric){"loss", score->loss};
    if (training) return add_reading(base, to, 1);
    to[1] = (metric){"lr", rate};
    int count = add_metric(to, 2, "error", score->error);
    count = add_metric(to, count, "accuracy", 1 - score->error);
    return add_metric(to, count, "top5_accuracy", 1 - score->top5_error);
}

static int samples_final(const task *base, const train_score *valid, const train_score *test, int64_t skipped,
                         metric *to)
{
    (void)valid;
    to[0] = (metric){"test_loss", test->loss};
    to[1] = (metric){"skipped_steps", (double)skipped};
    int count = add_metric(to, 2, "test_error", test->error);
    count = add_metric(to, count, "test_top5_error", test->top5_error);
    return add_reading(base, to, count);
}

static void samples_describe(const task *base, text *to)
{
    const samples *self = (const samples *)base;
    const source *train = self->train;
    psgd__text_add(to, "%lld training and %lld test samples, %lld classes, samples of [", (long long)train->count,
                   (long long)self->test->count, (long long)train->classes);
    for (int i = 0; i < train->ndim; i++) psgd__text_add(to, "%s%lld", i ? ", " : "", (long long)train->sample[i]);
    psgd__text_add(to, "]");
}

/* Evaluations; a batch as floats, and two of bytes. */
static double samples_memory(const task *base)
{
    const samples *self = (const samples *)base;
    int64_t graphs = psgd_graph_resident_bytes(self->eval.graph, false, false) +
                     psgd_graph_resident_bytes(self->rest.graph, false, false);
    return (double)graphs + (sizeof(float) + 2) * (double)(self->train->features * base->full.n);
}

const task_ops psgd__task_samples = {
    .validation = "test",
    .open = samples_open,
    .prepare = samples_prepare,
    .close = samples_close,
    .load = samples_load,
    .score = samples_score,
    .point = samples_point,
    .final = samples_final,
    .describe = samples_describe,
    .memory = samples_memory,
    .reading = samples_reading,
};
