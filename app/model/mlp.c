/* A multilayer perceptron on all values of a sample, and logistic regression, which is one without hidden layers.
 * Where y is a number and no class the loss is squared, so that the latter is linear regression. */
#include "model/model.h"

#include <stdio.h>

psgd_node psgd__model_activate(psgd_graph *g, int kind, psgd_node x)
{
    if (kind == 1) return psgd_graph_tanh(g, x);
    if (kind == 2) return psgd_graph_sigmoid(g, x);
    return psgd_graph_relu(g, x);
}

static model_nodes build_layers(psgd_graph *g, const model_shape *shape, const model_settings *settings, int64_t layers)
{
    model_nodes m = psgd__model_inputs(g, shape);
    int64_t in = psgd__model_features(shape);
    psgd_node a = m.x;
    char name[32];
    for (int64_t i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "W%d", (int)i + 1);
        a = psgd_graph_affine(g, a, psgd_graph_parameter(g, name, settings->hidden, in + 1));
        a = psgd__model_activate(g, settings->activation, a);
        if (settings->dropout > 0) a = psgd_graph_dropout(g, a, settings->dropout);
        in = settings->hidden;
    }
    snprintf(name, sizeof name, "W%d", (int)layers + 1);
    m.output = psgd_graph_affine(g, a, psgd_graph_parameter(g, name, shape->classes, in + 1));
    bool number = shape->classes == 1; /* y is no class */
    m.loss = number ? psgd_graph_squared(g, m.output, psgd_graph_reshape(g, m.y, 2, (int64_t[]){1, shape->n}))
                    : psgd_graph_softmax(g, m.output, m.y);
    return m;
}

static model_nodes mlp_build(psgd_graph *g, const model_shape *shape, const model_settings *settings)
{
    return build_layers(g, shape, settings, settings->layers);
}

static model_nodes logistic_build(psgd_graph *g, const model_shape *shape, const model_settings *settings)
{
    return build_layers(g, shape, settings, 0);
}

const model psgd__model_mlp = {
    .name = "mlp",
    .summary = "A multilayer perceptron: --layers of --hidden units with --activation",
    .sample = "anything",
    .takes = {"hidden", "layers", "activation", "dropout"},
    .build = mlp_build,
};

const model psgd__model_logistic = {
    .name = "logistic",
    .summary = "Logistic regression: one affine map",
    .sample = "anything",
    .build = logistic_build,
};
