/* Differentiable graphs: loss, gradient and Hessian-vector product in one pass.
 *
 * A graph is built once for fixed shapes and run many times; only building allocates. Arrays are of the graph's number
 * type, in C order, and the last mode is the sample: a batch of n pictures is [channels, height, width, n], a batch of
 * sequences [times, features, n]. Parameters are matrices [out, in + 1], the bias in the last column, one after the
 * other in one slab that belongs to the caller.
 *
 *     psgd_graph_create(NULL, PSGD_F32, &g);
 *     x = psgd_graph_input(g, 2, (int64_t[]){784, 64});
 *     y = psgd_graph_input(g, 1, (int64_t[]){64});
 *     W = psgd_graph_parameter(g, "W", 10, 785);
 *     psgd_graph_finish(g, psgd_graph_softmax(g, psgd_graph_affine(g, x, W), y));
 *     psgd_graph_hessian(g, theta, v, gradient, hv, &loss);
 *
 * Calls that add a node return it, or -1 where they fail; they pass a -1 on, so it is enough to look at what
 * psgd_graph_finish returns. */
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

/* Leaves. A parameter's name is for files; the slab has the parameters in the order of these calls. */
psgd_node psgd_graph_input(psgd_graph *graph, int ndim, const int64_t *shape);
psgd_node psgd_graph_parameter(psgd_graph *graph, const char *name, int64_t rows, int64_t columns);
/* A parameter that only embeddings of inputs read. In theta it is a whole matrix; at its place in v, gradient and hv
 * are the rows of psgd_graph_rows, one after the other, and nothing else is read or written. */
psgd_node psgd_graph_row_parameter(psgd_graph *graph, const char *name, int64_t rows, int64_t columns);

/* Layers. In an affine map all modes of x but the last are its input; W is [out, in + 1], the result [out, n]. */
psgd_node psgd_graph_affine(psgd_graph *graph, psgd_node x, psgd_node W);
/* x [c, h, w, n], W [out, kh kw c + 1] with columns in the order (row, column, channel); result [out, oh, ow, n]. */
psgd_node psgd_graph_convolution(psgd_graph *graph, psgd_node x, psgd_node W, int64_t kh, int64_t kw, int64_t stride,
                                 int64_t padding);
/* Windows of size x size that lie within x [c, h, w, n]. */
psgd_node psgd_graph_max_pool(psgd_graph *graph, psgd_node x, int64_t size, int64_t stride);
psgd_node psgd_graph_mean_pool(psgd_graph *graph, psgd_node x, int64_t size, int64_t stride);
/* x [times, in, n], W [hidden, in + hidden + 1]; h_t = tanh(W [x_t; h_(t-1); 1]); result [times, hidden, n]. */
psgd_node psgd_graph_rnn(psgd_graph *graph, psgd_node x, psgd_node W);
/* The same with W [4 hidden, in + hidden + 1], the gates in the order i, f, g, o. Both start from the state that
 * psgd_graph_carry has kept, zero at first. */
psgd_node psgd_graph_lstm(psgd_graph *graph, psgd_node x, psgd_node W);
/* tokens [times, n] of row numbers of W [words, features + 1], whose last column is not used; result
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

/* Normalisation. response: a / (k + alpha (size / c) sum over all channels of a^2)^beta, x [c, h, w, n]. batch: each
 * feature (all modes but the last; with per_channel the first only) to mean 0 and variance 1 over the batch. */
psgd_node psgd_graph_response_norm(psgd_graph *graph, psgd_node x, double size, double k, double alpha, double beta);
psgd_node psgd_graph_batch_norm(psgd_graph *graph, psgd_node x, bool per_channel, double epsilon);
/* A gain and a shift of its own for each feature, to be learned, as usual after a normalisation: W [features, 2] or,
 * for the first mode of x alone, [channels, 2]; y = W_0 x + W_1. Rows start best from (1, 0). */
psgd_node psgd_graph_gain(psgd_graph *graph, psgd_node x, psgd_node W);

/* Shapes. A negative entry of a new shape takes what is left. */
psgd_node psgd_graph_reshape(psgd_graph *graph, psgd_node x, int ndim, const int64_t *shape);
psgd_node psgd_graph_permute(psgd_graph *graph, psgd_node x,
                             const int *order); /* result mode i is mode order[i] of x */
psgd_node psgd_graph_concat(psgd_graph *graph, int count, const psgd_node *parts, int mode);
psgd_node psgd_graph_slice(psgd_graph *graph, psgd_node x, int mode, int64_t from, int64_t count);

/* Losses, one number each. softmax: the mean over samples of the cross entropy, x [classes, n], labels [n] from 0.
 * logistic: the mean over samples of the sum of log(1 + e^x) - t x, targets t in [0, 1] of the shape of x. squared:
 * half the mean over samples of the sum of (x - t)^2. l2: coefficient / 2 times the sum of squares. */
psgd_node psgd_graph_softmax(psgd_graph *graph, psgd_node x, psgd_node labels);
/* softmax of W [x; 1] for each token, x [times, features, n], W [words, features + 1], labels [times, n]: product and
 * loss in one, for tens of thousands of words; the logits stand in memory once. Tokens with the label -1 do not
 * count: the loss is the mean over the others. */
psgd_node psgd_graph_decoder(psgd_graph *graph, psgd_node x, psgd_node W, psgd_node labels);
psgd_node psgd_graph_logistic(psgd_graph *graph, psgd_node x, psgd_node targets);
psgd_node psgd_graph_squared(psgd_graph *graph, psgd_node x, psgd_node targets);
psgd_node psgd_graph_l2(psgd_graph *graph, psgd_node x, double coefficient);

/* Plans the memory. loss has one number. Fails with the sentence of the first call that failed. */
psgd_status psgd_graph_finish(psgd_graph *graph, psgd_node loss);

/* Runs. theta, v, gradient and hv are slabs of psgd_graph_parameters numbers, apart from each other. loss alone runs
 * without dropout. hessian makes Hv of the same loss, mask and batch as the gradient. */
psgd_status psgd_graph_loss(psgd_graph *graph, const void *theta, double *loss);
psgd_status psgd_graph_gradient(psgd_graph *graph, const void *theta, void *gradient, double *loss);
psgd_status psgd_graph_hessian(psgd_graph *graph, const void *theta, const void *v, void *gradient, void *hv,
                               double *loss);

/* For methods that look inside a gradient, as KFAC does: called on the way back for every affine map and convolution
 * whose matrix is a parameter, with count rows of what the matrix was multiplied by (as many numbers as it has columns,
 * 1 for the bias) and of gradients of what came out (as many as it has rows), those of a sample's own loss. A
 * convolution has a row for each sample and place; where there are T places, all its numbers are times T^(1/4), so that
 * mean xx' (x) mean dd' is KFAC's Fisher matrix of a sample here too. Allocates; NULL ends it. */
typedef void (*psgd_graph_watcher)(void *data, int parameter, int64_t count, const void *inputs, const void *gradients);
psgd_status psgd_graph_watch(psgd_graph *graph, psgd_graph_watcher watcher, void *data);

/* The rows of a row parameter that the tokens in the inputs name now; the list belongs to the graph and stands until
 * the next call or run. Where psgd_graph_rows_most says 0 the parameter has no rows of its own: it is a plain one. */
psgd_status psgd_graph_rows(psgd_graph *graph, int parameter, psgd_rows *rows);
int64_t psgd_graph_max_rows(const psgd_graph *graph, int parameter);

/* What a node is: its values (an input's are the caller's to write), its shape. */
void *psgd_graph_values(psgd_graph *graph, psgd_node node);
int psgd_graph_shape(const psgd_graph *graph, psgd_node node, const int64_t **shape);
/* Values of an input from samples one after the other, [n][features]. */
psgd_status psgd_graph_set_samples(psgd_graph *graph, psgd_node input, const void *samples);

/* The masks of dropout are a function of seed and step. */
void psgd_graph_set_step(psgd_graph *graph, uint64_t seed, uint64_t step);
/* Recurrent layers start the next run from where the last one ended; or from zero again. */
void psgd_graph_carry(psgd_graph *graph);
void psgd_graph_reset(psgd_graph *graph);
/* The carried state as one array of numbers; entries 0 .. count - 1, count being the result. */
int64_t psgd_graph_state(psgd_graph *graph, void **state);

int64_t psgd_graph_parameters(const psgd_graph *graph); /* numbers in the slab */
int psgd_graph_parameter_count(const psgd_graph *graph);
psgd_node psgd_graph_parameter_node(const psgd_graph *graph, int index);
const char *psgd_graph_parameter_name(const psgd_graph *graph, int index);
const int64_t *psgd_graph_parameter_shape(const psgd_graph *graph, int index); /* two numbers */
int64_t psgd_graph_parameter_offset(const psgd_graph *graph, int index);       /* in the slab */
int64_t psgd_graph_bytes(const psgd_graph *graph);
double psgd_graph_flops(const psgd_graph *graph, bool hessian); /* of one gradient, or of gradient and Hv */

/* An op of your own: a table of four kernels and a check. The kernels trust what check has accepted. */
typedef struct psgd_operand {
    int ndim;
    int64_t shape[PSGD_MAX_DIMS], size;
    /* value, and the others where live is true; all NULL while shapes are checked */
    void *value, *tangent, *gradient, *tangent_gradient;
    bool live; /* depends on a parameter, so it has a tangent and wants gradients */
    /* A row parameter: row i of value is row place[i] of the others, where that is not negative; the gradients are
     * zero at first and add is true. Else NULL. */
    const int64_t *place;
} psgd_operand;

typedef struct psgd_op_call {
    int input_count;
    psgd_operand input[PSGD_MAX_INPUTS], output;
    bool add[PSGD_MAX_INPUTS]; /* backward: add to the gradients of this input instead of writing them */
    const void *options;       /* the copy that the graph has made */
    void *memory;              /* memory_bytes of the op's own, zero at first, kept between kernels and runs */
    void *state;               /* state_numbers that psgd_graph_carry and a checkpoint keep */
    bool training;
    uint64_t seed, step;
    psgd_node node;
    /* What check fills in, besides the modes and shape of output. */
    int64_t memory_bytes, state_size;
    double flops; /* of one forward */
} psgd_op_call;

typedef struct psgd_op {
    const char *name;
    psgd_status (*check)(psgd_op_call *call);     /* do the shapes fit, and what comes out */
    psgd_status (*forward)(psgd_op_call *call);   /* output <- f(inputs) */
    void (*tangent)(psgd_op_call *call);          /* output.tangent <- f' tangents of live inputs */
    void (*backward)(psgd_op_call *call);         /* gradients of live inputs <- [add] f'^T output.gradient */
    void (*tangent_backward)(psgd_op_call *call); /* the derivative of backward along the tangents */
    /* OPTIONAL: state <- where the last run ended */
    void (*carry)(psgd_op_call *call);
} psgd_op;

/* op must be for the graph's number type and outlive the graph; options (option_bytes, may be NULL) is copied. */
psgd_node psgd_graph_op(psgd_graph *graph, const psgd_op *op, int input_count, const psgd_node *inputs,
                        const void *options, size_t option_bytes);

#ifdef __cplusplus
}
#endif
#endif
