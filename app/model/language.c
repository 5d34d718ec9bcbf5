/* The paper's language model (section 7.3): an embedding, LSTM layers with dropout after each, a decoder that is tied
 * to the embedding or has a matrix of its own. Dropout on the embedding is an option of its own, which the paper has
 * not. Every matrix carries its bias in the last column; the embedding does not use its own. Samples are texts of the
 * vocabulary [times]; x and y are tokens and the tokens after them, [times, n].
 *
 * The decoder fuses product and loss; with the setting logits, which takes times = 1, they are apart and the output is
 * the logits [words, n] of the last token. */
#include "model/model.h"

#include <stdio.h>

static model_nodes language_build(psgd_graph *g, const model_shape *shape, const model_settings *settings)
{
    int64_t words = shape->classes, hidden = settings->hidden, tokens[] = {shape->sample[0], shape->n};
    model_nodes m = {.x = psgd_graph_input(g, 2, tokens), .y = psgd_graph_input(g, 2, tokens), .output = -1};
    bool by_rows = settings->untied && settings->row_gradients;
    psgd_node W = (by_rows ? psgd_graph_row_parameter : psgd_graph_parameter)(g, "embedding", words, hidden + 1);
    psgd_node a = psgd_graph_embedding(g, m.x, W);
    if (settings->embedding_dropout > 0) a = psgd_graph_dropout(g, a, settings->embedding_dropout);
    for (int64_t i = 0; i < settings->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "lstm%d", (int)i + 1);
        psgd_node layer = psgd_graph_parameter(g, name, 4 * hidden, 2 * hidden + 1);
        a = psgd_graph_dropout(g, psgd_graph_lstm(g, a, layer), settings->dropout);
    }
    if (settings->untied) W = psgd_graph_parameter(g, "decoder", words, hidden + 1);
    if (settings->logits) {
        m.output = psgd_graph_affine(g, a, W);
        m.loss = psgd_graph_softmax(g, m.output, psgd_graph_reshape(g, m.y, 1, &shape->n));
    } else {
        m.loss = psgd_graph_decoder(g, a, W, m.y);
    }
    return m;
}

static const model_default defaults[] = {{"hidden", "200"}, {"layers", "2"}, {"batch", "20"}, {0}};

const model psgd__model_language = {
    .name = "lm",
    .summary = "A language model: an embedding, --layers LSTMs of --hidden units, a decoder",
    .sample = "texts",
    .takes = {"hidden", "layers", "back", "dropout", "embedding-dropout", "untied", "row-gradients"},
    .sample_ndim = 1,
    .text = true,
    .uniform = 0.1,
    .defaults = defaults,
    .build = language_build,
};
