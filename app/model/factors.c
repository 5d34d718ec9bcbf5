/* Matrix factorisation: samples are two vectors [2, size], the indicators of a row and a column say, and the prediction
 * is <U [x1; 1], V [x2; 1]> with U and V [hidden, size + 1]. The loss is squared. */
#include "model/model.h"

#include <math.h>

/* The sum over the features of a [features, n], as [1, n]. */
static psgd_node sum_features(psgd_graph *g, psgd_node a, int64_t features)
{
    psgd_node sum = psgd_graph_slice(g, a, 0, 0, 1);
    for (int64_t i = 1; i < features; i++) sum = psgd_graph_add(g, sum, psgd_graph_slice(g, a, 0, i, 1));
    return sum;
}

static model_nodes factors_build(psgd_graph *g, const model_shape *shape, const model_settings *settings)
{
    static const char *const names[2] = {"U", "V"};
    int64_t size = shape->sample[1], hidden = settings->hidden;
    model_nodes m = psgd__model_inputs(g, shape);
    psgd_node a[2];
    for (int i = 0; i < 2; i++) {
        psgd_node x = psgd_graph_reshape(g, psgd_graph_slice(g, m.x, 0, i, 1), 2, (int64_t[]){size, shape->n});
        a[i] = psgd_graph_affine(g, x, psgd_graph_parameter(g, names[i], hidden, size + 1));
    }
    m.output = sum_features(g, psgd_graph_multiply(g, a[0], a[1]), hidden);
    m.loss = psgd_graph_squared(g, m.output, psgd_graph_reshape(g, m.y, 2, (int64_t[]){1, shape->n}));
    return m;
}

/* An indicator picks one column: its entries, not their sum, should have a variance of their own. */
static void factors_start(int p, int64_t rows, int64_t columns, double *W)
{
    (void)p;
    double factor = 0.5 * sqrt((double)(columns - 1)) / pow((double)rows, 0.25);
    for (int64_t i = 0; i < rows * columns; i++) W[i] *= factor;
}

static const model_default defaults[] = {{"hidden", "5"}, {0}};

const model psgd__model_factors = {
    .name = "factors",
    .summary = "Matrix factorisation of rank --hidden: the product of two affine maps",
    .sample = "pairs of vectors [2, size]",
    .takes = {"hidden"},
    .sample_ndim = 2,
    .defaults = defaults,
    .build = factors_build,
    .start = factors_start,
};
