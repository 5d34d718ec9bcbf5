/* LeNet5 for images [c, h, w]: two convolutions 5 x 5 with max pooling, three affine maps. On 28 x 28 with one
 * channel the matrices are [6, 26], [16, 151], [120, 257], [84, 121], [10, 85]. */
#include "model/model.h"

static model_nodes lenet5_build(psgd_graph *g, const model_shape *shape, const model_settings *settings)
{
    (void)settings;
    int64_t c = shape->sample[0], h = (shape->sample[1] - 4) / 2, w = (shape->sample[2] - 4) / 2;
    int64_t flat = 16 * ((h - 4) / 2) * ((w - 4) / 2);
    model_nodes m = psgd__model_inputs(g, shape);
    psgd_node a = psgd_graph_convolution(g, m.x, psgd_graph_parameter(g, "W1", 6, 25 * c + 1), 5, 5, 1, 0);
    a = psgd_graph_relu(g, psgd_graph_max_pool(g, a, 2, 2));
    a = psgd_graph_convolution(g, a, psgd_graph_parameter(g, "W2", 16, 25 * 6 + 1), 5, 5, 1, 0);
    a = psgd_graph_relu(g, psgd_graph_max_pool(g, a, 2, 2));
    a = psgd_graph_relu(g, psgd_graph_affine(g, a, psgd_graph_parameter(g, "W3", 120, flat + 1)));
    a = psgd_graph_relu(g, psgd_graph_affine(g, a, psgd_graph_parameter(g, "W4", 84, 121)));
    m.output = psgd_graph_affine(g, a, psgd_graph_parameter(g, "W5", shape->classes, 85));
    m.loss = psgd_graph_softmax(g, m.output, m.y);
    return m;
}

const model psgd__model_lenet5 = {
    .name = "lenet5",
    .summary = "LeNet5: two convolutions with max pooling, three affine maps",
    .sample = "images [channels, height, width] of at least 16 x 16",
    .sample_ndim = 3,
    .build = lenet5_build,
};
