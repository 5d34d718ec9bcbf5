/* AlexNet of the paper's section 7.2: five convolutions, three affine maps, ungrouped. Full size, for images
 * [3, 227, 227] and 1000 classes, the matrices are [96, 364], [256, 2401], [384, 2305], [384, 3457], [256, 3457],
 * [4096, 9217], [4096, 4097] and [1000, 4097]: 62,378,344 parameters. Small is the same net for images of 32 x 32.
 *
 * Rectifiers follow all but the last matrix; response normalisation the first two; max pooling 3 x 3 with stride 2 the
 * first, second and fifth. Dropout comes before the last three. With normalise the features that enter each matrix are
 * brought to mean 0 and variance 1 over the batch, which is batch normalisation as section 6 has it: gain and shift
 * are the matrix that follows. */
#include "model/model.h"

#include <math.h>

enum { CONVOLUTIONS = 5, MATRICES = 8 };

typedef struct alexnet_size {
    int64_t out[MATRICES - 1], window[CONVOLUTIONS], padding[CONVOLUTIONS], stride; /* of the first */
} alexnet_size;

static const alexnet_size sizes[] = {
    {{96, 256, 384, 384, 256, 4096, 4096}, {11, 5, 3, 3, 3}, {0, 2, 1, 1, 1}, 4},
    {{16, 48, 64, 64, 48, 256, 256}, {5, 5, 3, 3, 3}, {2, 2, 1, 1, 1}, 1},
};

static const char *const names[MATRICES] = {"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"};

/* The size of a sample of x; 0 after a failure, which the graph remembers. */
static int64_t features_of(psgd_graph *g, psgd_node x, int64_t *channels)
{
    const int64_t *shape = NULL;
    int ndim = psgd_graph_shape(g, x, &shape);
    int64_t size = ndim > 0 ? 1 : 0;
    for (int i = 0; i + 1 < ndim; i++) size *= shape[i];
    *channels = ndim > 0 ? shape[0] : 0;
    return size;
}

static psgd_node convolution(psgd_graph *g, const alexnet_size *size, int i, bool normalise, psgd_node x)
{
    int64_t channels, k = size->window[i];
    features_of(g, x, &channels);
    if (normalise) x = psgd_graph_batch_norm(g, x, true, 1e-5);
    psgd_node W = psgd_graph_parameter(g, names[i], size->out[i], k * k * channels + 1);
    x = psgd_graph_relu(g, psgd_graph_convolution(g, x, W, k, k, i == 0 ? size->stride : 1, size->padding[i]));
    if (i < 2) x = psgd_graph_response_norm(g, x, 5, 2, 1e-4, 0.75);
    return i < 2 || i == 4 ? psgd_graph_max_pool(g, x, 3, 2) : x;
}

static model_nodes alexnet_build(psgd_graph *g, const model_shape *shape, const model_settings *settings)
{
    const alexnet_size *size = &sizes[settings->size];
    model_nodes m = psgd__model_inputs(g, shape);
    psgd_node a = m.x;
    for (int i = 0; i < CONVOLUTIONS; i++) a = convolution(g, size, i, settings->normalise, a);
    for (int i = CONVOLUTIONS; i < MATRICES; i++) {
        int64_t channels, in = features_of(g, a, &channels);
        if (settings->normalise) a = psgd_graph_batch_norm(g, a, true, 1e-5);
        if (settings->dropout > 0) a = psgd_graph_dropout(g, a, settings->dropout);
        int64_t out = i == MATRICES - 1 ? shape->classes : size->out[i];
        a = psgd_graph_affine(g, a, psgd_graph_parameter(g, names[i], out, in + 1));
        if (i < MATRICES - 1) a = psgd_graph_relu(g, a);
    }
    m.output = a;
    m.loss = psgd_graph_softmax(g, m.output, m.y);
    return m;
}

/* Full size: deviations of 0.01, biases 1 in layers 2, 4, 5, 6 and 7. In the small net each layer has the gain that it
 * has full size: its deviation is larger by the root of the ratio of inputs. */
static void alexnet_start(int p, int64_t rows, int64_t columns, double *W)
{
    static const double inputs[MATRICES] = {363, 2400, 2304, 3456, 3456, 9216, 4096, 4096};
    static const double bias[MATRICES] = {0, 1, 0, 1, 1, 1, 1, 0};
    double factor = 0.01 * sqrt(inputs[p]);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j + 1 < columns; j++) W[i * columns + j] *= factor;
        W[i * columns + columns - 1] = bias[p];
    }
}

const model psgd__model_alexnet = {
    .name = "alexnet",
    .summary = "AlexNet: five convolutions, three affine maps; size full or small",
    .sample = "images [channels, height, width], of at least 67 x 67, or of at least 15 x 15 with --size small",
    .takes = {"dropout", "size", "normalise"},
    .sample_ndim = 3,
    .build = alexnet_build,
    .start = alexnet_start,
};
