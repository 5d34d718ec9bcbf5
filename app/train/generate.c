/* Text from the language model of a run, one word at a time. Its checkpoint is enough: the text itself may be gone. */
#include "train/checkpoint.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/rng.h"
#include "data/text/tokens.h"

typedef struct speaker {
    const psgd_context *context;
    train_config config;
    vocabulary words;
    psgd_graph *graph;
    model_nodes nodes;
    const void *theta;
    double *weight; /* [words] */
} speaker;

/* Words, each with a zero byte after it. */
static psgd_status read_vocabulary(speaker *self, const checkpoint *file)
{
    int64_t bytes;
    const char *letters = psgd__checkpoint_section(file, "vocabulary", &bytes);
    if (!letters || letters[bytes - 1]) {
        return psgd__fail(PSGD_ERR_FORMAT, "the checkpoint in %s has no vocabulary, or half of one", file->folder);
    }
    for (int64_t at = 0; at < bytes; at += (int64_t)strlen(letters + at) + 1) {
        if (psgd__vocabulary_add(&self->words, letters + at, (int64_t)strlen(letters + at)) < 0)
            return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the vocabulary of '%s'", file->folder);
    }
    return PSGD_OK;
}

static psgd_status open_speaker(speaker *self, const checkpoint *file)
{
    PSGD_TRY(psgd__config_read(self->context, file->setting_count, file->settings, &self->config));
    if (!self->config.kind->text) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the run in %s is of the model %s, which has no words to write",
                          file->folder, self->config.kind->name);
    }
    PSGD_TRY(read_vocabulary(self, file));
    model_shape shape = {.ndim = 1, .sample = {1}, .n = 1, .classes = self->words.count};
    int64_t bytes, element = (int64_t)psgd_dtype_size(self->config.dtype);
    const char *weights = psgd__train_best_wins(&file->now) ? "best" : "weights";
    PSGD_TRY(psgd__checkpoint_array(file, weights, self->config.dtype, &self->theta, &bytes));
    model_settings settings = self->config.model;
    settings.parameters = bytes / element; /* a model of any other size is refused before it takes memory */
    settings.logits = true;
    settings.row_gradients = false;
    settings.l2 = 0;
    PSGD_TRY(psgd__model_graph(self->context, self->config.kind, self->config.dtype, &shape, &settings, &self->graph,
                               &self->nodes));
    if (bytes != psgd_graph_parameters(self->graph) * element)
        return psgd__fail(PSGD_ERR_FORMAT, "the weights of the run in %s do not fit its settings", file->folder);
    self->weight = psgd__alloc(self->context, self->words.count, sizeof *self->weight);
    return self->weight ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the model in '%s'", file->folder);
}

static double logit(const speaker *self, int64_t i)
{
    const void *values = psgd_graph_values(self->graph, self->nodes.output);
    return self->config.dtype == PSGD_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* Word i with a probability in proportion to exp(logit_i / temperature); the most likely one at temperature 0. */
static int64_t choose(speaker *self, double temperature, double u)
{
    int64_t best = 0;
    double sum = 0;
    for (int64_t i = 1; i < self->words.count; i++) best = logit(self, i) > logit(self, best) ? i : best;
    if (temperature == 0) return best;
    for (int64_t i = 0; i < self->words.count; i++)
        sum += self->weight[i] = exp((logit(self, i) - logit(self, best)) / temperature);
    u *= sum;
    for (int64_t i = 0; i < self->words.count; i++) {
        if (u < self->weight[i]) return i;
        u -= self->weight[i];
    }
    return best;
}

static void set_input(const speaker *self, psgd_node node, double value)
{
    void *values = psgd_graph_values(self->graph, node);
    if (self->config.dtype == PSGD_F64) {
        *(double *)values = value;
    } else {
        *(float *)values = (float)value;
    }
}

static psgd_status speak(speaker *self, int64_t count, double temperature, uint64_t seed,
                         void (*say)(void *data, const char *word, bool joined), void *data)
{
    rng_stream stream = psgd__rng_stream(seed, RNG_DATA, 0, 0);
    bool joined = !strncmp(self->config.settings.data, "chars:", 6);
    const char *end = joined ? "\n" : EOS_WORD;
    int64_t word = psgd__vocabulary_find(&self->words, end, (int64_t)strlen(end));
    psgd_graph_reset(self->graph);
    for (int64_t i = 0; i < count; i++) {
        double loss;
        set_input(self, self->nodes.x, (double)(word < 0 ? 0 : word));
        set_input(self, self->nodes.y, 0);
        PSGD_TRY(psgd_graph_loss(self->graph, self->theta, &loss));
        psgd_graph_carry(self->graph);
        word = choose(self, temperature, psgd__rng_uniform(&stream, (uint64_t)i));
        say(data, psgd__vocabulary_word(&self->words, word), joined);
    }
    return PSGD_OK;
}

psgd_status psgd__generate(const psgd_context *context, const char *folder, int64_t count, double temperature,
                           uint64_t seed, void (*say)(void *data, const char *word, bool joined), void *data)
{
    speaker self = {.context = context, .words = {.context = context}};
    checkpoint file;
    psgd_status status = psgd__checkpoint_open(context, folder, &file);
    if (status == PSGD_OK) status = open_speaker(&self, &file);
    if (status == PSGD_OK) status = speak(&self, count, temperature, seed, say, data);
    psgd_graph_free(self.graph);
    psgd__config_free(&self.config);
    psgd__free(context, self.weight);
    psgd__vocabulary_free(&self.words);
    psgd__checkpoint_close(&file);
    return status;
}
