/* Models: nothing but graph calls.
 *
 * To add one: a file with its table and a line in model.c. A model is built for a batch of samples of a given shape. */
#ifndef PSGD_MODEL_MODEL_H
#define PSGD_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/options.h"
#include <psgd/graph.h>

/* What a model is built for. Samples are pictures [c, h, w], vectors [features] or sequences [times, features]. */
typedef struct model_shape {
    int ndim;
    int64_t sample[PSGD_MAX_DIMS - 1], n, classes;
} model_shape;

typedef struct model_settings {
    int64_t hidden, layers;
    double l2, dropout;
    int activation; /* of the MLP: relu, tanh, sigmoid */
    int size;       /* of AlexNet: full, small */
    bool normalise; /* batch normalisation, in AlexNet */
} model_settings;

extern const option_row psgd__model_options[];
extern const int psgd__model_option_count;

/* The nodes that a caller reads and writes. */
typedef struct model_nodes {
    psgd_node x, y, output, loss;
} model_nodes;

typedef struct model {
    const char *name, *summary, *sample; /* the last: what its samples are, "pictures [c, h, w]" */
    int sample_ndim;
    /* Adds the nodes; the caller finishes the graph. */
    model_nodes (*build)(psgd_graph *graph, const model_shape *shape, const model_settings *settings);
    /* OPTIONAL: changes the start of parameter p, W [rows, columns] in double, which is normal deviates with variance
     * 1 / inputs and biases zero. */
    void (*start)(int p, int64_t rows, int64_t columns, double *W);
} model;

const model *psgd__model_at(int index); /* NULL past the last */
psgd_status psgd__model_find(const char *name, const model **found);

/* A finished graph of the model. */
psgd_status psgd__model_graph(const psgd_context *context, const model *kind, psgd_dtype dtype,
                              const model_shape *shape, const model_settings *settings, psgd_graph **graph,
                              model_nodes *nodes);

/* theta <- the model's start, a function of the seed. */
psgd_status psgd__model_start(const psgd_context *context, const model *kind, const psgd_graph *graph, psgd_dtype dtype,
                              uint64_t seed, void *theta);

extern const model psgd__model_logistic, psgd__model_mlp, psgd__model_lenet5, psgd__model_alexnet, psgd__model_rnn,
    psgd__model_lstm;

#endif
