/* A text, from word to word. For training it is cut into columns of equal length, one a sample of the batch; a step
 * moves on by the model's steps back in time, and the state is carried over. An epoch starts from a state of zero.
 * Schedules follow the loss of the validation text, and the test is made with the weights of its best. */
#include "train/task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "data/text/corpus.h"

typedef struct language {
    task base;
    corpus text;
    train_graph own, own_less; /* without the penalty, where there is one */
    char *state;               /* carried, set aside while a split is scored */
    double *sums;              /* [micro-batches][2] of a split: losses, words */
} language;

static psgd_status check_sizes(const language *self)
{
    const train_config *config = self->base.config;
    int64_t batch = config->settings.batch, back = config->model.back;
    if (self->base.steps_per_epoch < 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "the train text has %lld words; a batch of %lld with %lld steps back needs at least %lld",
                          (long long)self->text.text[TEXT_TRAIN].count, (long long)batch, (long long)back,
                          (long long)(batch * (back + 1)));
    }
    for (int i = TEXT_VALID; i < TEXT_COUNT; i++) {
        if (self->text.text[i].count >= 2) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT, "the %s text has one word; there is none to predict", psgd__text_names[i]);
    }
    return PSGD_OK;
}

/* What says something of labelled samples alone. */
static psgd_status check_options(const train_settings *s)
{
    if (s->samples > 0) return psgd__fail(PSGD_ERR_ARGUMENT, "--samples is for labelled samples; a text is used whole");
    const char *jpegs = psgd__task_jpeg_option(s);
    if (jpegs) return psgd__fail(PSGD_ERR_ARGUMENT, "--%s is for JPEGs, not for a text", jpegs);
    if (s->regression) return psgd__fail(PSGD_ERR_ARGUMENT, "--regression is for labelled samples, not for a text");
    if (s->validation > 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "--validation is for labelled samples; a text comes with its validation text");
    }
    return PSGD_OK;
}

static psgd_status language_open(const train_config *config, task **opened)
{
    PSGD_TRY(check_options(&config->settings));
    language *self = psgd__alloc(config->context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a run");
    self->base = (task){.ops = &psgd__task_language,
                        .validation = "valid",
                        .config = config,
                        .carries = true,
                        .identity = "vocabulary",
                        .identity_binds = true};
    *opened = &self->base;
    PSGD_TRY(psgd__corpus_open(config->context, config->settings.data, &self->text));
    const vocabulary *words = &self->text.words;
    int64_t back = config->model.back;
    self->base.shape = (model_shape){.ndim = 1, .sample = {back}, .classes = words->count};
    /* Columns of equal length, and the word after each is known. */
    self->base.steps_per_epoch = (self->text.text[TEXT_TRAIN].count / config->settings.batch - 1) / back;
    self->base.identity_bytes = words->letters;
    self->base.identity_size = words->letters_used;
    if (!isnan(self->text.entropy)) {
        snprintf(self->base.note, sizeof self->base.note,
                 "a Markov language of %lld words; its entropy is %.4f nats, a perplexity of %.2f",
                 (long long)words->count, self->text.entropy, exp(self->text.entropy));
    }
    return check_sizes(self);
}

static psgd_status language_prepare(task *base)
{
    language *self = (language *)base;
    const train_config *config = base->config;
    void *state;
    int64_t size = psgd_graph_state(base->full.graph, &state);
    bool by_rows = psgd_graph_max_rows(base->full.graph, 0) > 0;
    psgd__task_fact(base, "words", "%lld", (long long)self->text.words.count);
    psgd__task_fact(base, "parameters", "%lld", (long long)psgd_graph_parameters(base->full.graph));
    psgd__task_fact(base, "decoder", by_rows ? "untied, row-sparse" : config->model.untied ? "untied" : "tied");
    if (config->model.l2 > 0) PSGD_TRY(psgd__task_graph(base, base->full.n, false, false, &self->own));
    if (config->model.l2 > 0) PSGD_TRY(psgd__task_graph(base, base->less.n, false, false, &self->own_less));
    self->state = psgd__alloc(config->context, size, psgd_dtype_size(config->dtype));
    self->sums = psgd__alloc(config->context, 2 * config->settings.micro_batches, sizeof *self->sums);
    return self->state && self->sums ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the state of a run");
}

static void language_close(task *base)
{
    language *self = (language *)base;
    psgd_graph_free(self->own.graph);
    psgd_graph_free(self->own_less.graph);
    psgd__free(base->config->context, self->sums);
    psgd__corpus_free(&self->text);
    psgd__free(base->config->context, self->state);
    psgd__free(base->config->context, self);
}

/* x[t, j] <- word (step times + t) of column first + j, y the word after it. Columns are length words apart; where a
 * column or the text is at its end nothing counts, and the label is -1. Returns how many count. */
static int64_t fill(const language *self, const train_graph *to, corpus_split split, int64_t first, int64_t length,
                    int64_t step)
{
    const tokens *from = &self->text.text[split];
    bool is_double = self->base.config->dtype == PSGD_F64;
    void *x = psgd_graph_values(to->graph, to->nodes.x), *y = psgd_graph_values(to->graph, to->nodes.y);
    int64_t times = self->base.shape.sample[0], counted = 0;
    for (int64_t t = 0; t < times; t++) {
        for (int64_t j = 0; j < to->n; j++) {
            int64_t at = step * times + t, place = (first + j) * length + at, k = t * to->n + j;
            bool counts = at < length && place + 1 < from->count;
            int32_t word = counts ? from->number[place] : 0, next = counts ? from->number[place + 1] : -1;
            if (is_double) {
                ((double *)x)[k] = word;
                ((double *)y)[k] = next;
            } else {
                ((float *)x)[k] = (float)word;
                ((float *)y)[k] = (float)next;
            }
            counted += counts;
        }
    }
    return counted;
}

static psgd_status language_load(task *base, int64_t step, const task_piece *piece)
{
    const language *self = (const language *)base;
    int64_t within = step % base->steps_per_epoch, batch = base->config->settings.batch;
    int64_t length = self->text.text[TEXT_TRAIN].count / batch;
    if (within == 0) psgd_graph_reset(piece->full->graph);
    fill(self, piece->full, TEXT_TRAIN, piece->from, length, within);
    if (piece->part->graph) fill(self, piece->part, TEXT_TRAIN, piece->from, length, within);
    return PSGD_OK;
}

/* The sum of the losses of the words in the columns of a piece, from a state of zero and without dropout, and how many
 * words these are. */
static psgd_status piece_loss(const language *self, const task_piece *piece, corpus_split split, const void *theta,
                              double sum[2])
{
    const train_graph *g = piece->full;
    if (self->own.graph) g = g == &self->base.full ? &self->own : &self->own_less;
    int64_t words = self->text.text[split].count - 1, batch = self->base.config->settings.batch;
    int64_t length = (words + batch - 1) / batch, back = self->base.shape.sample[0];
    int64_t batches = psgd__task_eval_batches(&self->base, (length + back - 1) / back);
    double part;
    sum[0] = sum[1] = 0;
    psgd_graph_reset(g->graph);
    for (int64_t i = 0; i < batches; i++) {
        int64_t counted = fill(self, g, split, piece->from, length, i);
        if (counted == 0) continue;
        PSGD_TRY(psgd_graph_loss(g->graph, theta, &part));
        psgd_graph_carry(g->graph);
        sum[0] += part * (double)counted;
        sum[1] += (double)counted;
        psgd__task_scored(&self->base, i + 1, batches);
    }
    return PSGD_OK;
}

/* The mean loss over all words of a text but the first, or those of the first batches. */
static psgd_status mean_loss(const language *self, corpus_split split, const void *theta, double *loss)
{
    const train_config *config = self->base.config;
    int64_t first, count, pieces = config->settings.micro_batches;
    psgd_status status = PSGD_OK;
    psgd__task_own(config, &first, &count);
    double words = 0;
    memset(self->sums, 0, (size_t)(2 * pieces) * sizeof *self->sums);
    for (int64_t i = first; i < first + count && status == PSGD_OK; i++) {
        task_piece piece = psgd__task_piece(&self->base, i);
        status = piece_loss(self, &piece, split, theta, &self->sums[2 * i]);
    }
    PSGD_TRY(psgd_comm_agree(config->comm, status));
    PSGD_TRY(psgd_comm_sum(config->comm, PSGD_F64, 2 * pieces, self->sums));
    *loss = 0;
    for (int64_t i = 0; i < pieces; i++) {
        *loss += self->sums[2 * i];
        words += self->sums[2 * i + 1];
    }
    *loss /= words;
    return PSGD_OK;
}

static psgd_status language_score(task *base, bool is_test, const void *theta, train_score *score)
{
    language *self = (language *)base;
    const train_graph *g = self->own.graph ? &self->own : &base->full;
    void *state;
    size_t bytes = (size_t)psgd_graph_state(g->graph, &state) * psgd_dtype_size(base->config->dtype);
    memcpy(self->state, state, bytes);
    psgd_status status = mean_loss(self, is_test ? TEXT_TEST : TEXT_VALID, theta, &score->loss);
    memcpy(state, self->state, bytes);
    score->error = score->top5_error = NAN;
    score->perplexity = exp(score->loss);
    return status;
}

static int language_point(const task *base, bool training, const train_score *score, double rate, metric *to)
{
    (void)training;
    double entropy = ((const language *)base)->text.entropy;
    to[0] = (metric){"loss", score->loss};
    to[1] = (metric){"perplexity", exp(score->loss)};
    to[2] = (metric){"lr", rate};
    to[3] = (metric){"gap", score->loss - entropy};
    return isnan(entropy) ? 3 : 4;
}

static int language_final(const task *base, const train_score *valid, const train_score *test, int64_t skipped,
                          metric *to)
{
    double entropy = ((const language *)base)->text.entropy;
    to[0] = (metric){"valid_loss", valid->loss};
    to[1] = (metric){"valid_perplexity", valid->perplexity};
    to[2] = (metric){"test_loss", test->loss};
    to[3] = (metric){"test_perplexity", test->perplexity};
    to[4] = (metric){"skipped_steps", (double)skipped};
    to[5] = (metric){"test_gap", test->loss - entropy};
    return isnan(entropy) ? 5 : 6;
}

static void language_describe(const task *base, text *to)
{
    const corpus *from = &((const language *)base)->text;
    psgd__text_add(to, "%lld training, %lld validation and %lld test words, a vocabulary of %lld",
                   (long long)from->text[TEXT_TRAIN].count, (long long)from->text[TEXT_VALID].count,
                   (long long)from->text[TEXT_TEST].count, (long long)from->words.count);
}

static double language_memory(const task *base)
{
    return (double)psgd_graph_resident_bytes(((const language *)base)->own.graph, false, false);
}

const task_ops psgd__task_language = {
    .keeps_best = true,
    .health_every = 10,
    .open = language_open,
    .prepare = language_prepare,
    .close = language_close,
    .load = language_load,
    .score = language_score,
    .point = language_point,
    .final = language_final,
    .describe = language_describe,
    .memory = language_memory,
};
