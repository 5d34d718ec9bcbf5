/* The calls that add a built-in op. */
#include "graph/graph.h"
#include "graph/ops.h"

#define ADD(graph, name, count, inputs, options, bytes)                                                                \
    psgd_graph_op(graph, PSGD_PICK((graph)->dtype, &psgd__op_##name), count, inputs, options, bytes)

/* A failed node is passed on without a further word. */
static bool failed(const psgd_graph *graph, psgd_node a, psgd_node b)
{
    return !graph || (graph->failure != PSGD_OK && (a < 0 || b < 0));
}

#define ONE(name)                                                                                                      \
    psgd_node psgd_graph_##name(psgd_graph *graph, psgd_node x)                                                        \
    {                                                                                                                  \
        if (failed(graph, x, 0)) return -1;                                                                            \
        return ADD(graph, name, 1, &x, NULL, 0);                                                                       \
    }

#define TWO(name)                                                                                                      \
    psgd_node psgd_graph_##name(psgd_graph *graph, psgd_node a, psgd_node b)                                           \
    {                                                                                                                  \
        if (failed(graph, a, b)) return -1;                                                                            \
        return ADD(graph, name, 2, ((psgd_node[]){a, b}), NULL, 0);                                                    \
    }

ONE(tanh)
ONE(sigmoid)
TWO(affine)
TWO(gain)
TWO(rnn)
TWO(lstm)
TWO(embedding)
TWO(add)
TWO(multiply)
TWO(softmax)
TWO(logistic)
TWO(squared)

psgd_node psgd_graph_decoder(psgd_graph *graph, psgd_node x, psgd_node W, psgd_node labels)
{
    if (failed(graph, x, W) || failed(graph, labels, 0)) return -1;
    return ADD(graph, decoder, 3, ((psgd_node[]){x, W, labels}), NULL, 0);
}

psgd_node psgd_graph_relu(psgd_graph *graph, psgd_node x)
{
    return psgd_graph_leaky_relu(graph, x, 0);
}

psgd_node psgd_graph_leaky_relu(psgd_graph *graph, psgd_node x, double slope)
{
    if (failed(graph, x, 0)) return -1;
    return ADD(graph, relu, 1, &x, &(relu_options){slope}, sizeof(relu_options));
}

psgd_node psgd_graph_l2(psgd_graph *graph, psgd_node x, double coefficient)
{
    if (failed(graph, x, 0)) return -1;
    return ADD(graph, l2, 1, &x, &(l2_options){coefficient}, sizeof(l2_options));
}

psgd_node psgd_graph_convolution(psgd_graph *graph, psgd_node x, psgd_node W, int64_t kh, int64_t kw, int64_t stride,
                                 int64_t padding)
{
    if (failed(graph, x, W)) return -1;
    convolution_options options = {kh, kw, stride, padding};
    return ADD(graph, convolution, 2, ((psgd_node[]){x, W}), &options, sizeof options);
}

psgd_node psgd_graph_max_pool(psgd_graph *graph, psgd_node x, int64_t size, int64_t stride)
{
    if (failed(graph, x, 0)) return -1;
    return ADD(graph, max_pool, 1, &x, (&(pool_options){size, stride}), sizeof(pool_options));
}

psgd_node psgd_graph_mean_pool(psgd_graph *graph, psgd_node x, int64_t size, int64_t stride)
{
    if (failed(graph, x, 0)) return -1;
    return ADD(graph, mean_pool, 1, &x, (&(pool_options){size, stride}), sizeof(pool_options));
}

psgd_node psgd_graph_dropout(psgd_graph *graph, psgd_node x, double probability)
{
    if (failed(graph, x, 0)) return -1;
    return ADD(graph, dropout, 1, &x, &(dropout_options){probability}, sizeof(dropout_options));
}

psgd_node psgd_graph_response_norm(psgd_graph *graph, psgd_node x, double size, double k, double alpha, double beta)
{
    if (failed(graph, x, 0)) return -1;
    response_norm_options options = {size, k, alpha, beta};
    return ADD(graph, response_norm, 1, &x, &options, sizeof options);
}

psgd_node psgd_graph_batch_norm(psgd_graph *graph, psgd_node x, bool per_channel, double epsilon)
{
    if (failed(graph, x, 0)) return -1;
    batch_norm_options options = {per_channel, epsilon};
    return ADD(graph, batch_norm, 1, &x, &options, sizeof options);
}

psgd_node psgd_graph_reshape(psgd_graph *graph, psgd_node x, int ndim, const int64_t *shape)
{
    if (failed(graph, x, 0)) return -1;
    shape_options options = {.ndim = ndim};
    for (int i = 0; shape && i < ndim && i < PSGD_MAX_DIMS; i++) options.shape[i] = shape[i];
    return ADD(graph, reshape, 1, &x, &options, sizeof options);
}

psgd_node psgd_graph_permute(psgd_graph *graph, psgd_node x, const int *order)
{
    if (failed(graph, x, 0)) return -1;
    shape_options options = {.ndim = psgd_graph_shape(graph, x, NULL)};
    for (int i = 0; order && i < options.ndim; i++) options.shape[i] = order[i];
    return ADD(graph, permute, 1, &x, &options, sizeof options);
}

psgd_node psgd_graph_concat(psgd_graph *graph, int count, const psgd_node *parts, int mode)
{
    for (int i = 0; i < count; i++) {
        if (failed(graph, parts[i], 0)) return -1;
    }
    return ADD(graph, concat, count, parts, &(range_options){.mode = mode}, sizeof(range_options));
}

psgd_node psgd_graph_slice(psgd_graph *graph, psgd_node x, int mode, int64_t from, int64_t count)
{
    if (failed(graph, x, 0)) return -1;
    range_options options = {mode, from, count};
    return ADD(graph, slice, 1, &x, &options, sizeof options);
}
