/* A simple RNN or an LSTM over sequences [times, features], and a decision from its last output. With one class the
 * label is a target in {0, 1} of the logistic loss, else a class. */
#include "model/model.h"

#include <math.h>

static model_nodes build_recurrent(psgd_graph *g, const model_shape *shape, const model_settings *settings,
                                   int64_t gates, psgd_node (*layer)(psgd_graph *graph, psgd_node x, psgd_node W))
{
    int64_t times = shape->sample[0], in = shape->sample[1], hidden = settings->hidden;
    bool binary = shape->classes == 2;
    model_nodes m = psgd__model_inputs(g, shape);
    psgd_node a = layer(g, m.x, psgd_graph_parameter(g, "W1", gates * hidden, in + hidden + 1));
    a = psgd_graph_slice(g, a, 0, times - 1, 1);
    m.output = psgd_graph_affine(g, a, psgd_graph_parameter(g, "W2", binary ? 1 : shape->classes, hidden + 1));
    psgd_node y = shape->classes > 2 ? m.y : psgd_graph_reshape(g, m.y, 2, (int64_t[]){1, shape->n});
    m.loss = binary                ? psgd_graph_logistic(g, m.output, y)
             : shape->classes == 1 ? psgd_graph_squared(g, m.output, y)
                                   : psgd_graph_softmax(g, m.output, y);
    return m;
}

static model_nodes rnn_build(psgd_graph *g, const model_shape *shape, const model_settings *settings)
{
    return build_recurrent(g, shape, settings, 1, psgd_graph_rnn);
}

static model_nodes lstm_build(psgd_graph *g, const model_shape *shape, const model_settings *settings)
{
    return build_recurrent(g, shape, settings, 4, psgd_graph_lstm);
}

/* The recurrent block made orthogonal, by Gram and Schmidt over its rows, so that the past neither fades nor grows. */
static void rnn_start(int p, int64_t rows, int64_t columns, double *W)
{
    if (p != 0) return;
    int64_t in = columns - 1 - rows;
    for (int64_t i = 0; i < rows; i++) {
        double *row = W + i * columns + in, energy = 0;
        for (int64_t k = 0; k < i; k++) {
            const double *other = W + k * columns + in;
            double along = 0;
            for (int64_t j = 0; j < rows; j++) along += row[j] * other[j];
            for (int64_t j = 0; j < rows; j++) row[j] -= along * other[j];
        }
        for (int64_t j = 0; j < rows; j++) energy += row[j] * row[j];
        for (int64_t j = 0; j < rows; j++) row[j] /= sqrt(energy);
    }
}

/* Forget gates start open: their bias is 1. */
static void lstm_start(int p, int64_t rows, int64_t columns, double *W)
{
    for (int64_t i = rows / 4; p == 0 && i < rows / 2; i++) W[i * columns + columns - 1] = 1;
}

const model psgd__model_rnn = {
    .name = "rnn",
    .summary = "A simple RNN of --hidden units, decided at the last time",
    .sample = "sequences [times, features]",
    .takes = {"hidden"},
    .sample_ndim = 2,
    .build = rnn_build,
    .start = rnn_start,
};

const model psgd__model_lstm = {
    .name = "lstm",
    .summary = "An LSTM of --hidden units, decided at the last time",
    .sample = "sequences [times, features]",
    .takes = {"hidden"},
    .sample_ndim = 2,
    .build = lstm_build,
    .start = lstm_start,
};
