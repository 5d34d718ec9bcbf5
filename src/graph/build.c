/* The calls that add a built-in op, and the list of all of them. psgd_graph_op passes earlier failures on. */
#include "graph/graph.h"
#include "graph/ops.h"

#define ADD(graph, name, count, inputs, options, bytes)                                                                \
    psgd_graph_op(graph, PSGD_PICK((graph) ? (graph)->dtype : PSGD_F32, &psgd__op_##name), count, inputs, options,     \
                  bytes)

#define UNARY(name)                                                                                                    \
    psgd_node psgd_graph_##name(psgd_graph *graph, psgd_node x)                                                        \
    {                                                                                                                  \
        return ADD(graph, name, 1, &x, NULL, 0);                                                                       \
    }
#define BINARY(name)                                                                                                   \
    psgd_node psgd_graph_##name(psgd_graph *graph, psgd_node a, psgd_node b)                                           \
    {                                                                                                                  \
        return ADD(graph, name, 2, ((psgd_node[]){a, b}), NULL, 0);                                                    \
    }
#define OWN(name)
#define BUILD(name, builder) builder(name)
PSGD_OPS(BUILD)

#define F32(name, builder) &psgd__op_##name##_f32,
#define F64(name, builder) &psgd__op_##name##_f64,

const psgd_op *psgd__op_at(psgd_dtype dtype, int index)
{
    static const psgd_op *const f32[] = {PSGD_OPS(F32)}, *const f64[] = {PSGD_OPS(F64)};
    if (index < 0 || index >= (int)(sizeof f32 / sizeof f32[0])) return NULL;
    return dtype == PSGD_F64 ? f64[index] : f32[index];
}

psgd_node psgd_graph_decoder(psgd_graph *graph, psgd_node x, psgd_node W, psgd_node labels)
{
    return ADD(graph, decoder, 3, ((psgd_node[]){x, W, labels}), NULL, 0);
}

psgd_node psgd_graph_relu(psgd_graph *graph, psgd_node x)
{
    return psgd_graph_leaky_relu(graph, x, 0);
}

psgd_node psgd_graph_leaky_relu(psgd_graph *graph, psgd_node x, double slope)
{
    return ADD(graph, relu, 1, &x, &(relu_options){slope}, sizeof(relu_options));
}

psgd_node psgd_graph_l2(psgd_graph *graph, psgd_node x, double coefficient)
{
    return ADD(graph, l2, 1, &x, &(l2_options){coefficient}, sizeof(l2_options));
}

psgd_node psgd_graph_convolution(psgd_graph *graph, psgd_node x, psgd_node W, int64_t kh, int64_t kw, int64_t stride,
                                 int64_t padding)
{
    convolution_options options = {kh, kw, stride, padding};
    return ADD(graph, convolution, 2, ((psgd_node[]){x, W}), &options, sizeof options);
}

psgd_node psgd_graph_max_pool(psgd_graph *graph, psgd_node x, int64_t size, int64_t stride)
{
    return ADD(graph, max_pool, 1, &x, (&(pool_options){size, stride}), sizeof(pool_options));
}

psgd_node psgd_graph_mean_pool(psgd_graph *graph, psgd_node x, int64_t size, int64_t stride)
{
    return ADD(graph, mean_pool, 1, &x, (&(pool_options){size, stride}), sizeof(pool_options));
}

psgd_node psgd_graph_dropout(psgd_graph *graph, psgd_node x, double probability)
{
    return ADD(graph, dropout, 1, &x, &(dropout_options){probability}, sizeof(dropout_options));
}

psgd_node psgd_graph_response_norm(psgd_graph *graph, psgd_node x, double size, double k, double alpha, double beta)
{
    response_norm_options options = {size, k, alpha, beta};
    return ADD(graph, response_norm, 1, &x, &options, sizeof options);
}

psgd_node psgd_graph_batch_norm(psgd_graph *graph, psgd_node x, bool per_channel, double epsilon)
{
    batch_norm_options options = {per_channel, epsilon};
    return ADD(graph, batch_norm, 1, &x, &options, sizeof options);
}

psgd_node psgd_graph_reshape(psgd_graph *graph, psgd_node x, int ndim, const int64_t *shape)
{
    shape_options options = {.ndim = ndim};
    for (int i = 0; shape && i < ndim && i < PSGD_MAX_DIMS; i++) options.shape[i] = shape[i];
    return ADD(graph, reshape, 1, &x, &options, sizeof options);
}

psgd_node psgd_graph_permute(psgd_graph *graph, psgd_node x, const int *order)
{
    shape_options options = {.ndim = psgd_graph_shape(graph, x, NULL)};
    for (int i = 0; order && i < options.ndim; i++) options.shape[i] = order[i];
    return ADD(graph, permute, 1, &x, &options, sizeof options);
}

psgd_node psgd_graph_concat(psgd_graph *graph, int count, const psgd_node *parts, int axis)
{
    return ADD(graph, concat, count, parts, &(range_options){.axis = axis}, sizeof(range_options));
}

psgd_node psgd_graph_slice(psgd_graph *graph, psgd_node x, int axis, int64_t from, int64_t count)
{
    range_options options = {axis, from, count};
    return ADD(graph, slice, 1, &x, &options, sizeof options);
}
