/* The built-in ops. To add one: a file with its table, a line here, one in builtin.c and a call in build.c.
 *
 * Kernels are typed; an op's options are the structs below, copied into the graph. In the formulas x is an input, y the
 * output, d.. a gradient, t.. a tangent. */
#ifndef PSGD_GRAPH_OPS_H
#define PSGD_GRAPH_OPS_H

#include "core/dtype.h"
#include "core/memory.h"
#include "core/status.h"
#include <psgd/graph.h>

#define PSGD_OPS(X)                                                                                                    \
    X(affine)                                                                                                          \
    X(relu)                                                                                                            \
    X(tanh)                                                                                                            \
    X(sigmoid)                                                                                                         \
    X(add)                                                                                                             \
    X(multiply)                                                                                                        \
    X(softmax)                                                                                                         \
    X(decoder)                                                                                                         \
    X(logistic)                                                                                                        \
    X(squared)                                                                                                         \
    X(l2)                                                                                                              \
    X(convolution)                                                                                                     \
    X(max_pool)                                                                                                        \
    X(mean_pool)                                                                                                       \
    X(rnn)                                                                                                             \
    X(lstm)                                                                                                            \
    X(embedding)                                                                                                       \
    X(dropout)                                                                                                         \
    X(response_norm)                                                                                                   \
    X(batch_norm)                                                                                                      \
    X(gain)                                                                                                            \
    X(reshape)                                                                                                         \
    X(permute)                                                                                                         \
    X(concat)                                                                                                          \
    X(slice)

#define PSGD_DECLARE_OP(name) extern const psgd_op psgd__op_##name##_f32, psgd__op_##name##_f64;
PSGD_OPS(PSGD_DECLARE_OP)

/* Every built-in op for a number type, from 0; NULL past the last. */
const psgd_op *psgd__op_at(psgd_dtype dtype, int index);

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

typedef struct shape_options { /* reshape: a new shape; permute: the order of modes */
    int ndim;
    int64_t shape[PSGD_MAX_DIMS];
} shape_options;

typedef struct range_options { /* slice; concat uses mode alone */
    int mode;
    int64_t from, count;
} range_options;

/* The last mode, and how many numbers each sample has. */
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
