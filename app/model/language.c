#include "model/language.h"

#include <stdio.h>

#include "core/rng.h"
#include "core/status.h"

/* What stands between the embedding and the decoder; [times, hidden, batch]. */
static psgd_node build_layers(psgd_graph *g, const language_shape *shape, psgd_node x)
{
    x = psgd_graph_dropout(g, x, shape->dropout);
    for (int64_t i = 0; i < shape->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "lstm%d", (int)i + 1);
        psgd_node W = psgd_graph_parameter(g, name, 4 * shape->hidden, 2 * shape->hidden + 1);
        x = psgd_graph_dropout(g, psgd_graph_lstm(g, x, W), shape->dropout);
    }
    return x;
}

psgd_status psgd__language_graph(const psgd_context *context, const language_shape *shape, bool logits,
                                 psgd_graph **graph, language_nodes *nodes)
{
    psgd_graph *g;
    PSGD_TRY(psgd_graph_create(context, PSGD_F32, &g));
    int64_t tokens[] = {shape->times, shape->batch};
    language_nodes made = {
        .tokens = psgd_graph_input(g, 2, tokens), .labels = psgd_graph_input(g, 2, tokens), .logits = -1};
    psgd_node embedding = (shape->untied && shape->by_rows ? psgd_graph_row_parameter : psgd_graph_parameter)(
        g, "embedding", shape->words, shape->hidden + 1);
    psgd_node decoder = embedding;
    psgd_node x = build_layers(g, shape, psgd_graph_embedding(g, made.tokens, embedding));
    if (shape->untied) decoder = psgd_graph_parameter(g, "decoder", shape->words, shape->hidden + 1);
    psgd_node loss;
    if (logits) {
        made.logits = psgd_graph_affine(g, x, decoder);
        loss = psgd_graph_softmax(g, made.logits, psgd_graph_reshape(g, made.labels, 1, &shape->batch));
    } else {
        loss = psgd_graph_decoder(g, x, decoder, made.labels);
    }
    psgd_status status = psgd_graph_finish(g, loss);
    if (status != PSGD_OK) {
        psgd_graph_free(g);
        return status;
    }
    *graph = g;
    *nodes = made;
    return PSGD_OK;
}

void psgd__language_start(const psgd_graph *graph, double range, uint64_t seed, float *theta)
{
    for (int p = 0; p < psgd_graph_parameter_count(graph); p++) {
        const int64_t *shape = psgd_graph_parameter_shape(graph, p);
        float *to = theta + psgd_graph_parameter_offset(graph, p);
        rng_stream stream = psgd__rng_stream(seed, RNG_INIT, (uint64_t)p, 0);
        for (int64_t i = 0; i < shape[0]; i++) {
            for (int64_t j = 0; j < shape[1]; j++, to++) {
                double u = psgd__rng_uniform(&stream, (uint64_t)(i * shape[1] + j));
                *to = j + 1 < shape[1] ? (float)(range * (2 * u - 1)) : 0;
            }
        }
    }
}

int64_t psgd__language_parameters(const language_shape *shape)
{
    int64_t matrix = shape->words * (shape->hidden + 1);
    return (shape->untied ? 2 : 1) * matrix + shape->layers * 4 * shape->hidden * (2 * shape->hidden + 1);
}

double psgd__language_bytes(const language_shape *shape)
{
    double tokens = (double)shape->times * (double)shape->batch, hidden = (double)shape->hidden;
    double logits = 2 * (double)shape->words * tokens, layers = (double)(shape->layers + 1) * 60 * hidden * tokens;
    return sizeof(float) * (logits + layers);
}
