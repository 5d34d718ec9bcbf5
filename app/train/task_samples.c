/* Labelled samples: tables, images and sequences. Each epoch visits them in an order that is a function of the seed and
 * the epoch. Schedules follow the samples that option validation holds out of the training split; without it the test
 * split is both what they follow and what the end is measured on. */
#include "train/task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "data/source.h"
#include "data/text/corpus.h"

/* Evaluations have batches of this size, but for large samples, where they take no more memory than a step. */
enum { EVAL_BATCH = 250, LARGE_SAMPLE = 1 << 14 };

typedef struct samples {
    task base;
    source *train, *test;
    int64_t *kept;           /* of the training split: those held out for validation, then the others; NULL: all */
    int64_t held;            /* how many */
    train_graph eval, rest;  /* rest: what is left of the test split */
    train_graph held_rest;   /* and of those held out */
    float *x, *y;            /* a batch as the source gives it */
    uint64_t checksums[2];   /* of the splits, where they have any */
    int64_t *order, ordered; /* of the epoch ordered; -1: of none yet */
    double *sums;            /* [batches of the largest split][3]: losses, errors, top-5 errors */
} samples;

/* What says something of other sources alone. */
static psgd_status check_options(const train_settings *s, const source *train)
{
    const char *jpegs = psgd__task_takes_jpegs(s->data) ? NULL : psgd__task_jpeg_option(s);
    if (jpegs) return psgd__fail(PSGD_ERR_ARGUMENT, "--%s is for JPEGs, --data images:DIR, not for %s", jpegs, s->data);
    if (!s->regression || train->classes == 1) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "--regression is for labels of csv, npy and idx; those of %s are classes",
                      s->data);
}

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
        .regression = s->regression,
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
    PSGD_TRY(check_options(s, self->train));
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
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "a batch of %lld is more than the %lld training samples of %s; --batch %lld or fewer",
                          (long long)s->batch, (long long)train->count, s->data, (long long)train->count);
    }
    return PSGD_OK;
}

/* Held out by option validation: the same samples whatever the seed of the run. */
static psgd_status hold_out(samples *self)
{
    double share = self->base.config->settings.validation;
    int64_t count = self->train->count;
    self->held = (int64_t)(share * (double)count);
    self->base.validation = share > 0 ? "valid" : "test";
    if (!(share > 0)) return PSGD_OK;
    if (self->held < 1 || count - self->held < self->base.config->settings.batch) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "holding out a share of %g of %lld training samples leaves %s", share,
                          (long long)count, self->held < 1 ? "none for validation" : "less than a batch to train on");
    }
    self->kept = psgd__alloc(self->base.config->context, count, sizeof *self->kept);
    if (!self->kept) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the order of %lld samples", (long long)count);
    psgd__source_shuffle(1, UINT64_MAX - 1, count, self->kept);
    return PSGD_OK;
}

static int64_t train_count(const samples *self)
{
    return self->train->count - self->held;
}

static psgd_status samples_open(const train_config *config, task **opened)
{
    samples *self = psgd__alloc(config->context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a run");
    self->base = (task){.ops = &psgd__task_samples, .config = config, .carries = config->model.normalise};
    self->ordered = -1;
    *opened = &self->base;
    PSGD_TRY(open_splits(self));
    PSGD_TRY(hold_out(self));
    const source *train = self->train;
    self->base.shape = (model_shape){.ndim = train->ndim, .classes = train->classes};
    memcpy(self->base.shape.sample, train->sample, (size_t)train->ndim * sizeof train->sample[0]);
    self->base.steps_per_epoch = train_count(self) / config->settings.batch;
    if (train->checksum) {
        self->checksums[0] = train->checksum;
        self->checksums[1] = self->test->checksum;
        self->base.identity = "data";
        self->base.identity_bytes = (const char *)self->checksums;
        self->base.identity_size = sizeof self->checksums;
    }
    if (train->classes > 1) psgd__task_fact(&self->base, "classes", "%lld", (long long)train->classes);
    if (!config->kind->unlabelled && train->occurring > 0 && train->occurring < train->classes) {
        snprintf(self->base.note, sizeof self->base.note,
                 "labels go up to %lld but only %lld of the %lld classes occur; if they are values to predict, "
                 "--regression yes",
                 (long long)train->classes - 1, (long long)train->occurring, (long long)train->classes);
    }
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
    PSGD_TRY(psgd__task_graph(base, self->held % each, false, false, &self->held_rest));
    int64_t room = each > batch ? each : batch;
    self->x = psgd__alloc(context, features * room, sizeof *self->x);
    self->y = psgd__alloc(context, room, sizeof *self->y);
    self->order = psgd__alloc(context, self->train->count, sizeof *self->order);
    int64_t most = count > self->held ? count : self->held;
    self->sums = psgd__alloc(context, 3 * ((most + each - 1) / each), sizeof *self->sums);
    if (self->x && self->y && self->order && self->sums) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for batches of %lld samples", (long long)room);
}

static void samples_close(task *base)
{
    samples *self = (samples *)base;
    const psgd_context *context = base->config->context;
    psgd_graph_free(self->eval.graph);
    psgd_graph_free(self->rest.graph);
    psgd_graph_free(self->held_rest.graph);
    psgd__free(context, self->kept);
    psgd__source_close(self->train);
    psgd__source_close(self->test);
    psgd__free(context, self->x);
    psgd__free(context, self->y);
    psgd__free(context, self->order);
    psgd__free(context, self->sums);
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

/* Which sample stands where in an epoch. */
static void set_order(samples *self, int64_t epoch)
{
    uint64_t seed = (uint64_t)self->base.config->settings.seed;
    if (self->ordered == epoch) return;
    psgd__source_shuffle(seed, (uint64_t)epoch, train_count(self), self->order);
    for (int64_t i = 0; self->kept && i < train_count(self); i++) {
        self->order[i] = self->kept[self->held + self->order[i]];
    }
    self->ordered = epoch;
}

/* The piece that this rank reads after this one, in the same epoch; false where there is none. */
static bool find_next(const task *base, int64_t *within, task_piece *piece)
{
    int64_t first, count;
    psgd__task_own(base->config, &first, &count);
    bool last = piece->index + 1 == first + count;
    *within += last;
    *piece = psgd__task_piece(base, last ? first : piece->index + 1);
    return *within < base->steps_per_epoch;
}

static psgd_status samples_load(task *base, int64_t step, const task_piece *piece)
{
    samples *self = (samples *)base;
    source *from = self->train;
    uint64_t seed = (uint64_t)base->config->settings.seed;
    int64_t epoch = step / base->steps_per_epoch, within = step % base->steps_per_epoch;
    int64_t batch = base->config->settings.batch;
    set_order(self, epoch);
    const int64_t *index = self->order + within * batch + piece->from;
    if (from->announce) from->announce(from, piece->n, index, seed, (uint64_t)epoch);
    PSGD_TRY(read_into(self, from, piece->full, index));
    if (piece->part->graph) PSGD_TRY(read_into(self, from, piece->part, index));
    task_piece next = *piece;
    if (from->announce && find_next(base, &within, &next)) {
        from->announce(from, next.n, self->order + within * batch + next.from, seed, (uint64_t)epoch);
    }
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

/* What is scored: count samples, those of index or the first ones. */
typedef struct scored {
    source *from;
    int64_t count;
    const int64_t *index; /* NULL: all in order */
    const train_graph *rest;
} scored;

static int64_t scored_batches(const samples *self, const scored *what)
{
    return psgd__task_eval_batches(&self->base, (what->count + self->eval.n - 1) / self->eval.n);
}

/* A batch, which has as many samples as the graph returned. */
static const train_graph *scored_batch(const samples *self, const scored *what, int64_t batch,
                                       int64_t index[EVAL_BATCH])
{
    int64_t at = batch * self->eval.n;
    const train_graph *g = what->count - at >= self->eval.n ? &self->eval : what->rest;
    for (int64_t j = 0; j < g->n; j++) index[j] = what->index ? what->index[at + j] : at + j;
    return g;
}

/* Loss, errors and top-5 errors of one batch. Those held out are read as they are, without random crops. */
static psgd_status score_batch(samples *self, const scored *what, int64_t batch, int64_t next, const void *theta,
                               double sums[3])
{
    source *from = what->from;
    int64_t index[EVAL_BATCH], classes = self->base.config->kind->unlabelled ? 0 : self->train->classes;
    bool ahead = from->announce && !what->index && next < scored_batches(self, what);
    double own;
    const train_graph *g = scored_batch(self, what, batch, index);
    PSGD_TRY(read_into(self, from, g, index));
    if (ahead) from->announce(from, scored_batch(self, what, next, index)->n, index, 0, 0);
    PSGD_TRY(psgd_graph_loss(g->graph, theta, &own));
    sums[0] = own * (double)g->n;
    if (classes > 1) count_errors(self, g, &sums[1], &sums[2]);
    return PSGD_OK;
}

/* Batches in turn to the ranks; their sums, in the order of the batches, are those of a single rank. */
static psgd_status samples_score(task *base, bool is_test, const void *theta, train_score *score)
{
    samples *self = (samples *)base;
    scored what = {.from = self->test, .count = self->test->count, .rest = &self->rest};
    if (!is_test && self->kept) what = (scored){self->train, self->held, self->kept, &self->held_rest};
    psgd_comm *comm = base->config->comm;
    int64_t ranks = psgd_comm_size(comm), classes = base->config->kind->unlabelled ? 0 : self->train->classes;
    int64_t batches = scored_batches(self, &what);
    double sum = 0, wrong = 0, wrong5 = 0;
    psgd_status status = PSGD_OK;
    psgd__task_share_state(base, &base->full, &self->eval);
    psgd__task_share_state(base, &base->full, what.rest);
    memset(self->sums, 0, (size_t)(3 * batches) * sizeof *self->sums);
    for (int64_t b = psgd_comm_rank(comm); b < batches && status == PSGD_OK; b += ranks) {
        status = score_batch(self, &what, b, b + ranks, theta, self->sums + 3 * b);
        psgd__task_scored(base, b + 1, batches);
    }
    PSGD_TRY(psgd_comm_agree(comm, status));
    PSGD_TRY(psgd_comm_sum(comm, PSGD_F64, 3 * batches, self->sums));
    for (int64_t b = 0; b < batches; b++) {
        sum += self->sums[3 * b];
        wrong += self->sums[3 * b + 1];
        wrong5 += self->sums[3 * b + 2];
    }
    int64_t all = batches * self->eval.n;
    double count = (double)(all < what.count ? all : what.count);
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
    to[0] = (metric){"test_loss", test->loss};
    to[1] = (metric){"skipped_steps", (double)skipped};
    int count = add_metric(to, 2, "test_error", test->error);
    if (((const samples *)base)->kept) {
        count = add_metric(to, count, "valid_loss", valid->loss);
        count = add_metric(to, count, "valid_error", valid->error);
    }
    count = add_metric(to, count, "test_top5_error", test->top5_error);
    return add_reading(base, to, count);
}

static void samples_describe(const task *base, text *to)
{
    const samples *self = (const samples *)base;
    const source *train = self->train;
    psgd__text_add(to, "%lld training", (long long)train_count(self));
    if (self->held) psgd__text_add(to, ", %lld validation", (long long)self->held);
    psgd__text_add(to, " and %lld test samples, ", (long long)self->test->count);
    if (train->classes > 1) psgd__text_add(to, "%lld classes, samples of [", (long long)train->classes);
    if (train->classes == 1) psgd__text_add(to, "regression, 1 output, samples of [");
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
    .health_every = 10,
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
