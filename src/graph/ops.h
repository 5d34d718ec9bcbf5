/* The built-in ops. To add one: a file in op/ with its table and a line in the list below.
 *
 * The second column says how psgd_graph_<name> is made: UNARY (graph, x) and BINARY (graph, a, b) are generated from
 * the list, OWN is written out in build.c because it takes options. The graph keeps a copy of the options, which are
 * the structs below. In the formulas x is an input, y the output, d.. a gradient, t.. a tangent. */
#ifndef PSGD_GRAPH_OPS_H
#define PSGD_GRAPH_OPS_H

#include "core/dtype.h"
#include "core/memory.h"
#include "core/status.h"
#include <psgd/graph.h>

#define PSGD_OPS(X)                                                                                                    \
    X(affine, BINARY)                                                                                                  \
    X(relu, OWN)                                                                                                       \
    X(tanh, UNARY)                                                                                                     \
    X(sigmoid, UNARY)                                                                                                  \
    X(add, BINARY)                                                                                                     \
    X(multiply, BINARY)                                                                                                \
    X(softmax, BINARY)                                                                                                 \
    X(decoder, OWN)                                                                                                    \
    X(logistic, BINARY)                                                                                                \
    X(squared, BINARY)                                                                                                 \
    X(l2, OWN)                                                                                                         \
    X(convolution, OWN)                                                                                                \
    X(max_pool, OWN)                                                                                                   \
    X(mean_pool, OWN)                                                                                                  \
    X(rnn, BINARY)                                                                                                     \
    X(lstm, BINARY)                                                                                                    \
    X(embedding, BINARY)                                                                                               \
    X(dropout, OWN)                                                                                                    \
    X(response_norm, OWN)                                                                                              \
    X(batch_norm, OWN)                                                                                                 \
    X(gain, BINARY)                                                                                                    \
    X(reshape, OWN)                                                                                                    \
    X(permute, OWN)                                                                                                    \
    X(concat, OWN)                                                                                                     \
    X(slice, OWN)

#define PSGD_DECLARE_OP(name, builder) extern const psgd_op psgd__op_##name##_f32, psgd__op_##name##_f64;
PSGD_OPS(PSGD_DECLARE_OP)

/* Built-in op number index of a dtype, from 0; NULL past the last. */
const psgd_op *psgd__op_at(psgd_dtype dtype, int index);

/* Writes rows of inputs and of output gradients as psgd_graph_watch documents. Returns the number of rows, 0 for an op
 * that has none; both arrays may be NULL to get the number alone. */
int64_t psgd__graph_rows_f32(const psgd_op *op, const psgd_op_call *call, void *x_rows, void *d_rows);
int64_t psgd__graph_rows_f64(const psgd_op *op, const psgd_op_call *call, void *x_rows, void *d_rows);

typedef struct relu_options {
    double leak;
} relu_options;

typedef struct l2_options {
    double coefficient;
} l2_options;

typedef struct convolution_options {
    int64_t kh, kw, stride, padding;
} convolution_options;

typedef struct pool_options {
    int64_t size, stride;
} pool_options;

typedef struct dropout_options {
    double probability;
} dropout_options;

typedef struct response_norm_options {
    double size, k, alpha, beta;
} response_norm_options;

typedef struct batch_norm_options {
    bool per_channel;
    double epsilon;
} batch_norm_options;

typedef struct shape_options { /* reshape: the new shape; permute: the order of dimensions */
    int ndim;
    int64_t shape[PSGD_MAX_DIMS];
} shape_options;

typedef struct range_options { /* slice; concat uses axis alone */
    int axis;
    int64_t from, count;
} range_options;

/* The last dimension, and the size of one sample. */
static inline int64_t tensor_samples(const psgd_operand *x)
{
    return x->shape[x->ndim - 1];
}

static inline int64_t tensor_features(const psgd_operand *x)
{
    return x->size / tensor_samples(x);
}

static inline void tensor_like(psgd_operand *y, const psgd_operand *x)
{
    y->ndim = x->ndim;
    for (int i = 0; i < x->ndim; i++) y->shape[i] = x->shape[i];
}

static inline bool tensor_same_shape(const psgd_operand *x, const psgd_operand *y)
{
    if (x->ndim != y->ndim) return false;
    for (int i = 0; i < x->ndim; i++) {
        if (x->shape[i] != y->shape[i]) return false;
    }
    return true;
}

#endif
