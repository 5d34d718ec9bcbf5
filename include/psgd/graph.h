/* Differentiable graphs: loss, gradient and Hessian-vector product in one pass.
 *
 * A graph is built once for fixed shapes and run many times; only building allocates. Arrays have the graph's dtype,
 * are in C order, and their last dimension is the sample: a batch of n images is [channels, height, width, n], a batch
 * of sequences [times, features, n]. A parameter is a matrix [out, in + 1] with the bias in the last column. All
 * parameters lie one after the other in one array that belongs to the caller, the slab.
 *
 *     psgd_graph_create(NULL, PSGD_F32, &g);
 *     x = psgd_graph_input(g, 2, (int64_t[]){784, 64});
 *     y = psgd_graph_input(g, 1, (int64_t[]){64});
 *     W = psgd_graph_parameter(g, "W", 10, 785);
 *     psgd_graph_finish(g, psgd_graph_softmax(g, psgd_graph_affine(g, x, W), y));
 *     psgd_graph_hessian(g, theta, v, gradient, hv, &loss);
 *
 * Calls that add a node return it, or -1 on failure. They accept -1 as an input and return -1 then, so checking the
 * status of psgd_graph_finish is enough. */
#ifndef PSGD_GRAPH_H
#define PSGD_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <psgd/context.h>
#include <psgd/dtype.h>
#include <psgd/rows.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct psgd_graph psgd_graph;
typedef int psgd_node;

enum { PSGD_MAX_DIMS = 8, PSGD_MAX_INPUTS = 8 };

psgd_status psgd_graph_create(const psgd_context *context, psgd_dtype dtype, psgd_graph **graph);
void psgd_graph_free(psgd_graph *graph);

/* Leaves. A parameter's name identifies it in files; the slab holds the parameters in the order of these calls. */
psgd_node psgd_graph_input(psgd_graph *graph, int ndim, const int64_t *shape);
psgd_node psgd_graph_parameter(psgd_graph *graph, const char *name, int64_t rows, int64_t columns);
/* A row parameter: a matrix that only embeddings of inputs read, and whose gradient is row-sparse. theta holds the
 * whole matrix. At its offset in v, gradient and hv are only the rows that psgd_graph_rows lists, one after the other;
 * nothing else there is read or written. */
psgd_node psgd_graph_row_parameter(psgd_graph *graph, const char *name, int64_t rows, int64_t columns);

/* Layers. affine: the features are all dimensions of x but the last; W is [out, in + 1], the result [out, n]. */
psgd_node psgd_graph_affine(psgd_graph *graph, psgd_node x, psgd_node W);
/* x [c, h, w, n], W [out, kh kw c + 1] with columns in the order (row, column, channel); result [out, oh, ow, n]. */
psgd_node psgd_graph_convolution(psgd_graph *graph, psgd_node x, psgd_node W, int64_t kh, int64_t kw, int64_t stride,
                                 int64_t padding);
/* Windows of size x size that lie within x [c, h, w, n]. */
psgd_node psgd_graph_max_pool(psgd_graph *graph, psgd_node x, int64_t size, int64_t stride);
psgd_node psgd_graph_mean_pool(psgd_graph *graph, psgd_node x, int64_t size, int64_t stride);
/* x [times, in, n], W [hidden, in + hidden + 1]; h_t = tanh(W [x_t; h_(t-1); 1]); result [times, hidden, n]. */
psgd_node psgd_graph_rnn(psgd_graph *graph, psgd_node x, psgd_node W);
/* The same with W [4 hidden, in + hidden + 1], gates in the order i, f, g, o. Both start from the carried state, which
 * is zero until psgd_graph_carry is called. */
psgd_node psgd_graph_lstm(psgd_graph *graph, psgd_node x, psgd_node W);
/* tokens [times, n] are row indices into W [words, features + 1], whose last column is not used; result
 * [times, features, n]. */
psgd_node psgd_graph_embedding(psgd_graph *graph, psgd_node tokens, psgd_node W);

/* Elementwise. */
psgd_node psgd_graph_relu(psgd_graph *graph, psgd_node x);
psgd_node psgd_graph_leaky_relu(psgd_graph *graph, psgd_node x, double slope);
psgd_node psgd_graph_tanh(psgd_graph *graph, psgd_node x);
psgd_node psgd_graph_sigmoid(psgd_graph *graph, psgd_node x);
psgd_node psgd_graph_add(psgd_graph *graph, psgd_node a, psgd_node b);
psgd_node psgd_graph_multiply(psgd_graph *graph, psgd_node a, psgd_node b);
/* Zero with this probability, else x / (1 - probability); the identity when not training. */
psgd_node psgd_graph_dropout(psgd_graph *graph, psgd_node x, double probability);

/* Normalisation. response_norm: a / (k + alpha (size / c) sum over all channels of a^2)^beta, x [c, h, w, n].
 * batch_norm: each feature gets mean 0 and variance 1 over the batch. A feature is an index into all dimensions but the
 * last; with per_channel, into the first alone. */
psgd_node psgd_graph_response_norm(psgd_graph *graph, psgd_node x, double size, double k, double alpha, double beta);
psgd_node psgd_graph_batch_norm(psgd_graph *graph, psgd_node x, bool per_channel, double epsilon);
/* A learned gain and shift per feature, as is usual after a normalisation: W [features, 2] or, per channel, [channels,
 * 2]; y = W_0 x + W_1. Initialise the rows to (1, 0). */
psgd_node psgd_graph_gain(psgd_graph *graph, psgd_node x, psgd_node W);

/* Shapes. One size of a new shape may be negative: it is inferred from the others. */
psgd_node psgd_graph_reshape(psgd_graph *graph, psgd_node x, int ndim, const int64_t *shape);
psgd_node psgd_graph_permute(psgd_graph *graph, psgd_node x,
                             const int *order); /* dimension i of the result is dimension order[i] of x */
psgd_node psgd_graph_concat(psgd_graph *graph, int count, const psgd_node *parts, int axis);
psgd_node psgd_graph_slice(psgd_graph *graph, psgd_node x, int axis, int64_t from, int64_t count);

/* Losses, one value each. softmax: the mean over samples of the cross entropy, x [classes, n], labels [n] from 0.
 * logistic: the mean over samples of the sum of log(1 + e^x) - t x, targets t in [0, 1] of the shape of x. squared:
 * half the mean over samples of the sum of (x - t)^2. l2: coefficient / 2 times the sum of squares. */
psgd_node psgd_graph_softmax(psgd_graph *graph, psgd_node x, psgd_node labels);
/* The cross entropy of softmax(W [x; 1]) for each token, x [times, features, n], W [words, features + 1], labels
 * [times, n]. Product and loss are fused for vocabularies of tens of thousands of words: the logits are stored once.
 * Tokens with the label -1 do not count: the loss is the mean over the others. */
psgd_node psgd_graph_decoder(psgd_graph *graph, psgd_node x, psgd_node W, psgd_node labels);
psgd_node psgd_graph_logistic(psgd_graph *graph, psgd_node x, psgd_node targets);
psgd_node psgd_graph_squared(psgd_graph *graph, psgd_node x, psgd_node targets);
psgd_node psgd_graph_l2(psgd_graph *graph, psgd_node x, double coefficient);

/* Allocates the memory. loss is a node with one element. Returns the status and message of the first call that failed.
 */
psgd_status psgd_graph_finish(psgd_graph *graph, psgd_node loss);

/* Runs. theta, v, gradient and hv are slabs of psgd_graph_parameters elements that do not overlap. psgd_graph_loss runs
 * in evaluation mode, without dropout. psgd_graph_hessian computes Hv of the same loss, mask and batch as the gradient.
 */
psgd_status psgd_graph_loss(psgd_graph *graph, const void *theta, double *loss);
psgd_status psgd_graph_gradient(psgd_graph *graph, const void *theta, void *gradient, double *loss);
psgd_status psgd_graph_hessian(psgd_graph *graph, const void *theta, const void *v, void *gradient, void *hv,
                               double *loss);

/* A watcher receives the factors of a gradient, as KFAC needs them. The backward pass calls it for every affine map and
 * convolution whose matrix is a parameter. inputs is [count, columns of the matrix]: what the matrix was multiplied by,
 * 1 for the bias. gradients is [count, rows of the matrix]: the gradients of a sample's own loss by the outputs. A
 * convolution has one row per sample and position; with T positions its values are multiplied by T^(1/4), so that mean
 * xx' (x) mean dd' is KFAC's Fisher matrix of a sample here too. Setting a watcher allocates; NULL removes it. */
typedef void (*psgd_graph_watcher)(void *data, int parameter, int64_t count, const void *inputs, const void *gradients);
psgd_status psgd_graph_watch(psgd_graph *graph, psgd_graph_watcher watcher, void *data);

/* final is called in the course of psgd_graph_gradient and psgd_graph_hessian: with -1 when the values are known and
 * gradients begin, then for every parameter when its gradient, and hv, is final, while those of others are still being
 * computed. A status other than PSGD_OK ends the run with that status. NULL: no calls. */
typedef psgd_status (*psgd_graph_final)(void *data, int parameter);
psgd_status psgd_graph_on_final(psgd_graph *graph, psgd_graph_final final, void *data);

/* The rows of a row parameter that the tokens now in the inputs select. The list belongs to the graph and is valid
 * until the next call or run. psgd_graph_max_rows is the longest that it can get, and 0 for a plain parameter. */
psgd_status psgd_graph_rows(psgd_graph *graph, int parameter, psgd_rows *rows);
int64_t psgd_graph_max_rows(const psgd_graph *graph, int parameter);

/* A node's values, which belong to the graph (the caller writes those of inputs), NULL before psgd_graph_finish; and
 * its shape, with the number of dimensions as result. */
void *psgd_graph_values(psgd_graph *graph, psgd_node node);
int psgd_graph_shape(const psgd_graph *graph, psgd_node node, const int64_t **shape);
/* Fills an input from samples stored one after the other, [n][features]. */
psgd_status psgd_graph_set_samples(psgd_graph *graph, psgd_node input, const void *samples);

/* Dropout masks are a function of seed and step. */
void psgd_graph_set_step(psgd_graph *graph, uint64_t seed, uint64_t step);
/* carry: recurrent layers start the next run from the state in which the last one ended, and batch_norm adds the last
 * batch to its moving averages. reset: back to zero. */
void psgd_graph_carry(psgd_graph *graph);
void psgd_graph_reset(psgd_graph *graph);
/* The carried state as one array, which belongs to the graph; returns its size in elements, 0 before psgd_graph_finish.
 */
int64_t psgd_graph_state(psgd_graph *graph, void **state);

int64_t psgd_graph_parameters(const psgd_graph *graph); /* size of the slab in elements */
int psgd_graph_parameter_count(const psgd_graph *graph);
psgd_node psgd_graph_parameter_node(const psgd_graph *graph, int index);
const char *psgd_graph_parameter_name(const psgd_graph *graph, int index);
const int64_t *psgd_graph_parameter_shape(const psgd_graph *graph, int index); /* rows, columns */
int64_t psgd_graph_parameter_offset(const psgd_graph *graph, int index);       /* in the slab */
int64_t psgd_graph_bytes(const psgd_graph *graph); /* reserved; untouched pages cost no memory */
/* Of these, the bytes that an evaluation touches: of the loss alone, with its gradient, with Hv. */
int64_t psgd_graph_resident_bytes(const psgd_graph *graph, bool gradient, bool hessian);
double psgd_graph_flops(const psgd_graph *graph, bool hessian); /* of a gradient, or of gradient and Hv */

/* An op of your own: a check and four kernels. The kernels trust what check has accepted. */
typedef struct psgd_operand {
    int ndim;
    int64_t shape[PSGD_MAX_DIMS], size;
    /* All NULL while shapes are checked; later value is set, and the others where live is true. */
    void *value, *tangent, *gradient, *tangent_gradient;
    bool live; /* depends on a parameter, so it has a tangent and gradients */
    /* NULL but for row parameters: row i of value is row place[i] of the other arrays, where that is not negative.
     * Their gradients start at zero, and add is true. */
    const int64_t *place;
} psgd_operand;

typedef struct psgd_op_call {
    int input_count;
    psgd_operand input[PSGD_MAX_INPUTS], output;
    bool add[PSGD_MAX_INPUTS]; /* backward: add to the gradients of this input instead of writing them */
    const void *options;       /* the graph's copy */
    void *memory;              /* memory_bytes of scratch, zero at first, kept between kernels and runs */
    void *state;               /* state_size elements that psgd_graph_carry sets and a checkpoint saves */
    bool training;
    uint64_t seed, step;
    psgd_node node;
    /* Filled in by check, in addition to ndim and shape of output. */
    int64_t memory_bytes, state_size;
    double flops; /* of one forward */
} psgd_op_call;

typedef struct psgd_op {
    const char *name;
    psgd_status (*check)(psgd_op_call *call);     /* validates the shapes, sets that of output */
    psgd_status (*forward)(psgd_op_call *call);   /* output <- f(inputs) */
    void (*tangent)(psgd_op_call *call);          /* output.tangent <- f' tangents of live inputs */
    void (*backward)(psgd_op_call *call);         /* gradients of live inputs <- [+] f'^T output.gradient */
    void (*tangent_backward)(psgd_op_call *call); /* the derivative of backward along the tangents */
    /* OPTIONAL: state <- the state in which the last run ended */
    void (*carry)(psgd_op_call *call);
} psgd_op;

/* op must have the graph's dtype and outlive the graph; options (option_bytes, may be NULL) is copied. */
psgd_node psgd_graph_op(psgd_graph *graph, const psgd_op *op, int input_count, const psgd_node *inputs,
                        const void *options, size_t option_bytes);

#ifdef __cplusplus
}
#endif
#endif
