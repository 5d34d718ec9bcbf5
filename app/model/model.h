/* Models: nothing but graph calls.
 *
 * To add one: a file with its table and a line in model.c. A model is built for a batch of samples of a given shape. */
#ifndef PSGD_MODEL_MODEL_H
#define PSGD_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/options.h"
#include <psgd/graph.h>

/* What a model is built for. Samples are images [c, h, w], vectors [features], sequences [times, features] or, with the
 * vocabulary as classes, texts [times]. */
typedef struct model_shape {
    int ndim;
    int64_t sample[PSGD_MAX_DIMS - 1], n, classes;
} model_shape;

typedef struct model_settings {
    int64_t hidden, layers, back;
    double l2, dropout, embedding_dropout;
    int activation;             /* of the MLP and the autoencoder: relu, tanh, sigmoid */
    int size;                   /* of AlexNet: full, small */
    bool normalise;             /* batch normalisation, in AlexNet */
    bool untied, row_gradients; /* of the language model */
    bool logits;                /* no option: the language model's output is wanted */
    int64_t parameters;         /* no option: how many there must be; 0: any number */
} model_settings;

extern const option_row psgd__model_options[];
extern const int psgd__model_option_count;

/* The nodes that a caller reads and writes. */
typedef struct model_nodes {
    psgd_node x, y, output, loss;
} model_nodes;

typedef struct model_default {
    const char *name, *value;
} model_default;

typedef struct model {
    const char *name, *summary, *sample; /* the last: what its samples are, "images [c, h, w]" */
    int sample_ndim;
    bool unlabelled;               /* labels are not used, so that there are no errors to count */
    bool text;                     /* trains on a text, from token to token, not on labelled samples */
    double uniform;                /* not 0: parameters start uniform in (-uniform, uniform), biases zero */
    const char *takes[8];          /* its options besides l2; NULL after the last */
    const model_default *defaults; /* OPTIONAL: options that differ from the tables; ends with {0} */
    /* Adds the nodes; the caller finishes the graph. */
    model_nodes (*build)(psgd_graph *graph, const model_shape *shape, const model_settings *settings);
    /* OPTIONAL: changes the start of parameter p, W [rows, columns] in double; it is given normal deviates with
     * variance 1 / inputs and biases of zero. */
    void (*start)(int p, int64_t rows, int64_t columns, double *W);
} model;

/* For builders: the inputs of a batch of labelled samples, and the size of one. */
model_nodes psgd__model_inputs(psgd_graph *graph, const model_shape *shape);
int64_t psgd__model_features(const model_shape *shape);
psgd_node psgd__model_activate(psgd_graph *graph, int activation, psgd_node x);

psgd_status psgd__model_find(const char *name, const model **found);

/* That this value of a model's option means something to it. */
psgd_status psgd__model_check_option(const model *kind, const option_row *option, const char *value);

/* A finished graph of the model. */
psgd_status psgd__model_graph(const psgd_context *context, const model *kind, psgd_dtype dtype,
                              const model_shape *shape, const model_settings *settings, psgd_graph **graph,
                              model_nodes *nodes);

/* theta <- the model's start, a function of the seed. */
psgd_status psgd__model_start(const psgd_context *context, const model *kind, const psgd_graph *graph, psgd_dtype dtype,
                              uint64_t seed, void *theta);

extern const model psgd__model_logistic, psgd__model_mlp, psgd__model_lenet5, psgd__model_alexnet, psgd__model_rnn,
    psgd__model_lstm, psgd__model_language, psgd__model_factors, psgd__model_autoencoder;

#endif
