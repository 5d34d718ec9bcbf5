/* Text from the best model of a run, one word at a time. */
#include "train/language.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/rng.h"
#include "core/text.h"

typedef struct speaker {
    const psgd_context *context;
    vocabulary words;
    psgd_graph *graph;
    language_nodes nodes;
    float *slabs, *theta; /* theta and best; the one to use */
    double *weight;       /* [words] */
} speaker;

/* Words one a line, as a run writes them: a text whose line ends are no words. */
static psgd_status read_vocabulary(speaker *self, const char *folder, const language_mark *mark)
{
    text path = {.context = self->context};
    tokens ignored = {.context = self->context};
    vocabulary lines = {.context = self->context};
    psgd__text_add(&path, "%s/vocabulary.txt", folder);
    psgd_status status = path.failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to read '%s'", folder)
                                     : psgd__tokens_read(&ignored, &lines, true, path.chars);
    /* Even places are words, odd ones the ends of their lines. */
    for (int64_t i = 0; status == PSGD_OK && i < ignored.count; i += 2) {
        const char *word = psgd__vocabulary_word(&lines, ignored.number[i]);
        if (psgd__vocabulary_add(&self->words, word, (int64_t)strlen(word)) < 0)
            status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the vocabulary of '%s'", folder);
    }
    if (status == PSGD_OK &&
        (self->words.count != mark->words || psgd__vocabulary_checksum(&self->words) != mark->vocabulary))
        status = psgd__fail(PSGD_ERR_FORMAT, "'%s' is not the vocabulary of the checkpoint beside it", path.chars);
    psgd__text_free(&path);
    psgd__tokens_free(&ignored);
    psgd__vocabulary_free(&lines);
    return status;
}

static psgd_status open_speaker(speaker *self, const char *folder)
{
    language_memory memory = {0};
    PSGD_TRY(psgd__language_load_mark(folder, &memory.mark));
    language_mark mark = memory.mark;
    PSGD_TRY(read_vocabulary(self, folder, &mark));
    language_shape shape = {.words = mark.words,
                            .hidden = mark.hidden,
                            .layers = mark.layers,
                            .times = 1,
                            .batch = 1,
                            .untied = mark.untied};
    PSGD_TRY(psgd__language_graph(self->context, &shape, true, &self->graph, &self->nodes));
    self->slabs = psgd__alloc(self->context, 2 * mark.parameters + mark.state_size, sizeof(float));
    self->weight = psgd__alloc(self->context, mark.words, sizeof *self->weight);
    if (!self->slabs || !self->weight) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the model in '%s'", folder);
    memory.theta = self->slabs;
    memory.best = self->slabs + mark.parameters;
    memory.state = self->slabs + 2 * mark.parameters; /* of the batch it was trained with: not used */
    PSGD_TRY(psgd__language_load(self->context, &memory, folder));
    self->theta = isfinite(memory.mark.best) ? memory.best : memory.theta;
    if (psgd_graph_parameters(self->graph) == mark.parameters) return PSGD_OK;
    return psgd__fail(PSGD_ERR_FORMAT, "the checkpoint in '%s' does not fit its own sizes", folder);
}

/* A word from softmax(logits / temperature); the most likely one at a temperature of 0. */
static int64_t choose(speaker *self, double temperature, double u)
{
    const float *logits = psgd_graph_values(self->graph, self->nodes.logits);
    int64_t best = 0;
    double sum = 0;
    for (int64_t i = 1; i < self->words.count; i++) best = logits[i] > logits[best] ? i : best;
    if (temperature == 0) return best;
    for (int64_t i = 0; i < self->words.count; i++)
        sum += self->weight[i] = exp(((double)logits[i] - (double)logits[best]) / temperature);
    u *= sum;
    for (int64_t i = 0; i < self->words.count; i++) {
        if (u < self->weight[i]) return i;
        u -= self->weight[i];
    }
    return best;
}

static psgd_status speak(speaker *self, int64_t count, double temperature, uint64_t seed,
                         void (*say)(void *data, const char *word), void *data)
{
    rng_stream size = psgd__rng_stream(seed, RNG_DATA, 0, 0);
    int64_t word = psgd__vocabulary_find(&self->words, EOS_WORD, (int64_t)strlen(EOS_WORD));
    psgd_graph_reset(self->graph);
    for (int64_t i = 0; i < count; i++) {
        double loss;
        *(float *)psgd_graph_values(self->graph, self->nodes.tokens) = (float)(word < 0 ? 0 : word);
        *(float *)psgd_graph_values(self->graph, self->nodes.labels) = 0;
        PSGD_TRY(psgd_graph_loss(self->graph, self->theta, &loss));
        psgd_graph_carry(self->graph);
        word = choose(self, temperature, psgd__rng_uniform(&size, (uint64_t)i));
        say(data, psgd__vocabulary_word(&self->words, word));
    }
    return PSGD_OK;
}

psgd_status psgd__language_generate(const psgd_context *context, const char *folder, int64_t count, double temperature,
                                    uint64_t seed, void (*say)(void *data, const char *word), void *data)
{
    speaker self = {.context = context, .words = {.context = context}};
    psgd_status status = open_speaker(&self, folder);
    if (status == PSGD_OK) status = speak(&self, count, temperature, seed, say, data);
    psgd_graph_free(self.graph);
    psgd__free(context, self.slabs);
    psgd__free(context, self.weight);
    psgd__vocabulary_free(&self.words);
    return status;
}
