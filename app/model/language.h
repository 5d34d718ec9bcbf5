/* The paper's language model (section 7.3): an embedding, LSTM layers with dropout between, a decoder that is tied to
 * the embedding or has a matrix of its own. Every matrix carries its bias in the last column; that of the embedding is
 * not used there. */
#ifndef PSGD_MODEL_LANGUAGE_H
#define PSGD_MODEL_LANGUAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <psgd/graph.h>

typedef struct language_shape {
    int64_t words, hidden, layers, times, batch;
    double dropout;
    bool untied;
    bool by_rows; /* untied: the embedding is a row parameter */
} language_shape;

typedef struct language_nodes {
    psgd_node tokens, labels; /* [times, batch] */
    psgd_node logits;         /* [words, batch], where they were asked for; else -1 */
} language_nodes;

/* A finished graph. With logits, which takes times = 1, the logits of the last token can be read after a run; else
 * product and loss are one. */
psgd_status psgd__language_graph(const psgd_context *context, const language_shape *shape, bool logits,
                                 psgd_graph **graph, language_nodes *nodes);

/* theta <- uniform(-range, range), biases zero; a function of the seed. */
void psgd__language_start(const psgd_graph *graph, double range, uint64_t seed, float *theta);

int64_t psgd__language_parameters(const language_shape *shape);

/* Bytes of the graph, about. */
double psgd__language_bytes(const language_shape *shape);

#endif
