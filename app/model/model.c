/* The registry of models, and what holds for all of them: the penalty, the start. */
#include "model/model.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/rng.h"
#include <psgd/random.h>

static const model *const models[] = {
    &psgd__model_logistic, &psgd__model_mlp,      &psgd__model_lenet5,  &psgd__model_alexnet,     &psgd__model_rnn,
    &psgd__model_lstm,     &psgd__model_language, &psgd__model_factors, &psgd__model_autoencoder,
};

enum { MODEL_COUNT = sizeof models / sizeof models[0] };

static const char *const activations[] = {"relu", "tanh", "sigmoid", NULL};
static const char *const sizes[] = {"full", "small", NULL};

#define FIELD(name) offsetof(model_settings, name)

const option_row psgd__model_options[] = {
    {"hidden", OPTION_COUNT, FIELD(hidden), "30", 1, 1e6,
     .help = "units of a hidden layer, 200 in lm unless given; factors: the rank, 5 unless given"},
    {"layers", OPTION_COUNT, FIELD(layers), "1", 0, 1000,
     .help = "hidden layers of the mlp; LSTM layers of lm, 2 unless given"},
    {"activation", OPTION_CHOICE, FIELD(activation), "relu", .choices = activations,
     .help = "of the mlp and the autoencoder"},
    {"dropout", OPTION_NUMBER, FIELD(dropout), "0", 0, 1, .below = true,
     .help = "probability, in the mlp, after each layer of lm and before the last three matrices of alexnet"},
    {"embedding-dropout", OPTION_NUMBER, FIELD(embedding_dropout), "0", 0, 1, .below = true,
     .help = "lm: probability, on the embedding, where the paper has none"},
    {"size", OPTION_CHOICE, FIELD(size), "full", .choices = sizes, .help = "of alexnet; small: for images of 32 x 32"},
    {"normalise", OPTION_FLAG, FIELD(normalise), "no",
     .help = "alexnet: batch normalisation of the features that enter each matrix"},
    {"back", OPTION_COUNT, FIELD(back), "35", 1, 1e6, .help = "lm: steps back in time"},
    {"untied", OPTION_FLAG, FIELD(untied), "no", .help = "lm: embedding and decoder have a matrix each"},
    {"row-gradients", OPTION_FLAG, FIELD(row_gradients), "yes",
     .help = "lm, untied: gradients of the embedding are row-sparse, where the optimizer takes such"},
    {"l2", OPTION_NUMBER, FIELD(l2), "0", 0, HUGE_VAL, .help = "adds L2/2 times the squares of all parameters"},
};
const int psgd__model_option_count = sizeof psgd__model_options / sizeof psgd__model_options[0];

int64_t psgd__model_features(const model_shape *shape)
{
    int64_t size = 1;
    for (int i = 0; i < shape->ndim; i++) size *= shape->sample[i];
    return size;
}

model_nodes psgd__model_inputs(psgd_graph *graph, const model_shape *shape)
{
    int64_t full[PSGD_MAX_DIMS];
    for (int i = 0; i < shape->ndim; i++) full[i] = shape->sample[i];
    full[shape->ndim] = shape->n;
    return (model_nodes){.x = psgd_graph_input(graph, shape->ndim + 1, full),
                         .y = psgd_graph_input(graph, 1, &shape->n)};
}

psgd_status psgd__model_find(const char *name, const model **found)
{
    const char *names[MODEL_COUNT];
    for (int i = 0; i < MODEL_COUNT; i++) {
        names[i] = models[i]->name;
        if (strcmp(name, names[i])) continue;
        *found = models[i];
        return PSGD_OK;
    }
    return psgd__fail(PSGD_ERR_ARGUMENT, "there is no model '%s'%s", name,
                      psgd__suggest_or_list("models", name, names, MODEL_COUNT).words);
}

/* As numbers, where they are: 0.0 is 0. */
static bool is_equal(const char *value, const char *standard)
{
    double a, b;
    return !strcmp(value, standard) || (psgd__parse_number(value, &a) && psgd__parse_number(standard, &b) && a == b);
}

psgd_status psgd__model_check_option(const model *kind, const option_row *option, const char *value)
{
    char taken[128] = "--l2";
    bool takes = !strcmp(option->name, "l2") || is_equal(value, option->standard);
    for (int i = 0; kind->takes[i]; i++) {
        size_t used = strlen(taken);
        takes = takes || !strcmp(kind->takes[i], option->name);
        snprintf(taken + used, sizeof taken - used, ", --%s", kind->takes[i]);
    }
    if (takes) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "--%s is not an option of the model %s, which takes %s", option->name,
                      kind->name, taken);
}

/* loss + (l2 / 2) sum of squares of every parameter. */
static psgd_node penalised(psgd_graph *graph, psgd_node loss, double l2)
{
    for (int p = 0; p < psgd_graph_parameter_count(graph); p++) {
        loss = psgd_graph_add(graph, loss, psgd_graph_l2(graph, psgd_graph_parameter_node(graph, p), l2));
    }
    return loss;
}

psgd_status psgd__model_graph(const psgd_context *context, const model *kind, psgd_dtype dtype,
                              const model_shape *shape, const model_settings *settings, psgd_graph **graph,
                              model_nodes *nodes)
{
    if (kind->sample_ndim && kind->sample_ndim != shape->ndim) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s takes %s; samples of this source have %d dimension%s", kind->name,
                          kind->sample, shape->ndim, shape->ndim == 1 ? "" : "s");
    }
    PSGD_TRY(psgd_graph_create(context, dtype, graph));
    model_nodes m = kind->build(*graph, shape, settings);
    if (settings->l2 > 0) m.loss = penalised(*graph, m.loss, settings->l2);
    /* A graph without a loss has failed on its way, and finish says why. */
    bool fits = m.loss < 0 || settings->parameters == 0 || settings->parameters == psgd_graph_parameters(*graph);
    psgd_status status = fits ? psgd_graph_finish(*graph, m.loss)
                              : psgd__fail(PSGD_ERR_FORMAT, "%lld parameters do not fit the settings, which make %lld",
                                           (long long)settings->parameters, (long long)psgd_graph_parameters(*graph));
    if (status != PSGD_OK) {
        psgd_graph_free(*graph);
        *graph = NULL;
        if (status != PSGD_ERR_ARGUMENT || !kind->sample_ndim) return psgd__fail_in(status, "%s", kind->name);
        char why[512];
        snprintf(why, sizeof why, "%s", psgd_last_error());
        return psgd__fail(status, "%s: %s; it takes %s", kind->name, why, kind->sample);
    }
    *nodes = m;
    return PSGD_OK;
}

/* W <- normal deviates with variance 1 / inputs, or uniform ones; zero in the last column, the bias. */
static void draw_start(const model *kind, uint64_t seed, int p, int64_t rows, int64_t columns, double *W)
{
    double deviation = 1 / sqrt((double)(columns > 1 ? columns - 1 : 1));
    rng_stream stream = psgd__rng_stream(seed, RNG_INIT, (uint64_t)p, 0);
    if (kind->uniform == 0) (void)psgd_normal_init(PSGD_F64, seed, (uint64_t)p, 0, rows * columns, W);
    for (int64_t i = 0; i < rows * columns; i++) {
        if (i % columns == columns - 1) {
            W[i] = 0;
        } else if (kind->uniform == 0) {
            W[i] *= deviation;
        } else {
            W[i] = kind->uniform * (2 * psgd__rng_uniform(&stream, (uint64_t)i) - 1);
        }
    }
}

/* Drawn in double for both dtypes, so that they start from the same values. */
psgd_status psgd__model_start(const psgd_context *context, const model *kind, const psgd_graph *graph, psgd_dtype dtype,
                              uint64_t seed, void *theta)
{
    double *W = psgd__alloc(context, psgd_graph_parameters(graph), sizeof *W);
    if (!W) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the start of %s", kind->name);
    for (int p = 0; p < psgd_graph_parameter_count(graph); p++) {
        const int64_t *shape = psgd_graph_parameter_shape(graph, p);
        int64_t at = psgd_graph_parameter_offset(graph, p), columns = shape[1], size = shape[0] * columns;
        draw_start(kind, seed, p, shape[0], columns, W);
        if (kind->start) kind->start(p, shape[0], columns, W);
        for (int64_t i = 0; i < size; i++) {
            if (dtype == PSGD_F64) ((double *)theta)[at + i] = W[i];
            if (dtype == PSGD_F32) ((float *)theta)[at + i] = (float)W[i];
        }
    }
    psgd__free(context, W);
    return PSGD_OK;
}
