/* The values of every op against plain loops written from its formula, in f64 on random shapes; test_graph_laws.c
 * checks that gradients and Hv are their derivatives. The loops go entry by entry, one sum at a time. test_typed_conv.c
 * does the same for convolution, and test_graph.c tests the masks of dropout. */
#include "support.h"

#include "graph/ops.h"

enum { MAX = 4096 };

typedef struct plain {
    uint64_t random;
    psgd_graph *graph;
    double theta[MAX], expected[MAX];
    int64_t used; /* numbers of theta */
    int names;
    psgd_node data[2]; /* inputs, with their values */
    double values[2][MAX];
    int data_count;
} plain;

static int64_t some(plain *p, int64_t max)
{
    return 1 + random_below(&p->random, max);
}

/* A parameter [rows, columns] and its values. */
static const double *parameter(plain *p, int64_t rows, int64_t columns, psgd_node *node)
{
    char name[16];
    snprintf(name, sizeof name, "W%d", p->names++);
    *node = psgd_graph_parameter(p->graph, name, rows, columns);
    double *at = p->theta + p->used;
    p->used += rows * columns;
    assert_true(p->used <= MAX);
    for (int64_t i = 0; i < rows * columns; i++) at[i] = random_normal(&p->random);
    return at;
}

/* A live tensor of any shape: a reshaped parameter. */
static const double *tensor(plain *p, int ndim, const int64_t *shape, psgd_node *node)
{
    int64_t size = 1;
    for (int i = 0; i < ndim; i++) size *= shape[i];
    const double *x = parameter(p, size, 1, node);
    *node = psgd_graph_reshape(p->graph, *node, ndim, shape);
    return x;
}

/* An input of labels below classes, or of normal deviates. */
static const double *input(plain *p, int ndim, const int64_t *shape, int64_t classes, psgd_node *node)
{
    double *x = p->values[p->data_count];
    int64_t size = 1;
    for (int i = 0; i < ndim; i++) size *= shape[i];
    for (int64_t i = 0; i < size; i++) {
        x[i] = classes ? (double)random_below(&p->random, classes) : random_normal(&p->random);
    }
    *node = p->data[p->data_count++] = psgd_graph_input(p->graph, ndim, shape);
    return x;
}

static double logistic_of(double x)
{
    return 1 / (1 + exp(-x));
}

static psgd_node plain_affine(plain *p)
{
    int64_t in = some(p, 5), out = some(p, 4), n = some(p, 9);
    psgd_node x, W;
    const double *a = tensor(p, 2, (int64_t[]){in, n}, &x), *w = parameter(p, out, in + 1, &W);
    for (int64_t i = 0; i < out * n; i++) {
        p->expected[i] = w[i / n * (in + 1) + in];
        for (int64_t k = 0; k < in; k++) p->expected[i] += w[i / n * (in + 1) + k] * a[k * n + i % n];
    }
    return psgd_graph_affine(p->graph, x, W);
}

/* Elementwise ops, by index. */
static psgd_node elementwise(plain *p, int which)
{
    int64_t shape[] = {some(p, 4), some(p, 9)}, size = shape[0] * shape[1];
    psgd_node x, y;
    const double *a = tensor(p, 2, shape, &x), *b = which > 2 ? tensor(p, 2, shape, &y) : a;
    for (int64_t i = 0; i < size; i++) {
        const double all[] = {a[i] > 0 ? a[i] : 0.1 * a[i], tanh(a[i]), logistic_of(a[i]), a[i] + b[i], a[i] * b[i]};
        p->expected[i] = all[which];
    }
    if (which == 0) return psgd_graph_leaky_relu(p->graph, x, 0.1);
    if (which == 1) return psgd_graph_tanh(p->graph, x);
    if (which == 2) return psgd_graph_sigmoid(p->graph, x);
    return which == 3 ? psgd_graph_add(p->graph, x, y) : psgd_graph_multiply(p->graph, x, y);
}

static psgd_node plain_relu(plain *p)
{
    return elementwise(p, 0);
}

static psgd_node plain_tanh(plain *p)
{
    return elementwise(p, 1);
}

static psgd_node plain_sigmoid(plain *p)
{
    return elementwise(p, 2);
}

static psgd_node plain_add(plain *p)
{
    return elementwise(p, 3);
}

static psgd_node plain_multiply(plain *p)
{
    return elementwise(p, 4);
}

/* log sum e^z - z_label, the z stride apart. */
static double cross_entropy(int64_t classes, const double *z, int64_t stride, int64_t label)
{
    double sum = 0;
    for (int64_t c = 0; c < classes; c++) sum += exp(z[c * stride]);
    return log(sum) - z[label * stride];
}

static psgd_node plain_softmax(plain *p)
{
    int64_t classes = some(p, 6), n = some(p, 9);
    psgd_node x, y;
    const double *z = tensor(p, 2, (int64_t[]){classes, n}, &x), *label = input(p, 1, &n, classes, &y);
    for (int64_t j = 0; j < n; j++) p->expected[0] += cross_entropy(classes, z + j, n, (int64_t)label[j]) / (double)n;
    return psgd_graph_softmax(p->graph, x, y);
}

static psgd_node plain_decoder(plain *p)
{
    int64_t times = some(p, 3), features = some(p, 3), n = some(p, 4), words = some(p, 7);
    psgd_node x, W, y;
    const double *a = tensor(p, 3, (int64_t[]){times, features, n}, &x), *w = parameter(p, words, features + 1, &W);
    const double *label = input(p, 2, (int64_t[]){times, n}, words, &y);
    for (int64_t t = 0; t < times * n; t++) {
        double z[8];
        for (int64_t i = 0; i < words; i++) {
            z[i] = w[i * (features + 1) + features];
            for (int64_t k = 0; k < features; k++) {
                z[i] += w[i * (features + 1) + k] * a[(t / n * features + k) * n + t % n];
            }
        }
        p->expected[0] += cross_entropy(words, z, 1, (int64_t)label[t]) / (double)(times * n);
    }
    return psgd_graph_decoder(p->graph, x, W, y);
}

static psgd_node plain_logistic(plain *p)
{
    int64_t shape[] = {some(p, 3), some(p, 9)};
    psgd_node x, t;
    const double *a = tensor(p, 2, shape, &x), *b = input(p, 2, shape, 2, &t);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        p->expected[0] += (log(1 + exp(a[i])) - b[i] * a[i]) / (double)shape[1];
    }
    return psgd_graph_logistic(p->graph, x, t);
}

static psgd_node plain_squared(plain *p)
{
    int64_t shape[] = {some(p, 3), some(p, 9)};
    psgd_node x, t;
    const double *a = tensor(p, 2, shape, &x), *b = input(p, 2, shape, 0, &t);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        p->expected[0] += (a[i] - b[i]) * (a[i] - b[i]) / (2 * (double)shape[1]);
    }
    return psgd_graph_squared(p->graph, x, t);
}

static psgd_node plain_l2(plain *p)
{
    psgd_node x;
    int64_t shape[] = {some(p, 3), some(p, 9)};
    const double *a = tensor(p, 2, shape, &x);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) p->expected[0] += 0.35 * a[i] * a[i];
    return psgd_graph_l2(p->graph, x, 0.7);
}

static psgd_node pool(plain *p, bool max)
{
    int64_t size = some(p, 3), stride = some(p, 3), c = some(p, 2), n = some(p, 5);
    int64_t h = size + some(p, 4) - 1, w = size + some(p, 4) - 1, at = 0;
    psgd_node x;
    const double *a = tensor(p, 4, (int64_t[]){c, h, w, n}, &x);
    for (int64_t k = 0; k < c; k++) {
        for (int64_t oy = 0; oy * stride + size <= h; oy++) {
            for (int64_t ox = 0; ox * stride + size <= w; ox++) {
                for (int64_t j = 0; j < n; j++, at++) {
                    double largest = -INFINITY, sum = 0;
                    for (int64_t i = 0; i < size * size; i++) {
                        double own = a[((k * h + oy * stride + i / size) * w + ox * stride + i % size) * n + j];
                        largest = fmax(largest, own);
                        sum += own;
                    }
                    p->expected[at] = max ? largest : sum / (double)(size * size);
                }
            }
        }
    }
    return max ? psgd_graph_max_pool(p->graph, x, size, stride) : psgd_graph_mean_pool(p->graph, x, size, stride);
}

static psgd_node plain_max_pool(plain *p)
{
    return pool(p, true);
}

static psgd_node plain_mean_pool(plain *p)
{
    return pool(p, false);
}

/* One sample after the other, from a state of zeros. */
static psgd_node recurrent(plain *p, int64_t gates)
{
    int64_t times = some(p, 4), in = some(p, 3), hidden = some(p, 4), n = some(p, 5), ld = in + hidden + 1;
    psgd_node x, W;
    const double *a = tensor(p, 3, (int64_t[]){times, in, n}, &x), *w = parameter(p, gates * hidden, ld, &W);
    for (int64_t j = 0; j < n; j++) {
        double h[4] = {0}, c[4] = {0}, z[16];
        for (int64_t t = 0; t < times; t++) {
            for (int64_t i = 0; i < gates * hidden; i++) {
                z[i] = w[i * ld + in + hidden];
                for (int64_t k = 0; k < in; k++) z[i] += w[i * ld + k] * a[(t * in + k) * n + j];
                for (int64_t k = 0; k < hidden; k++) z[i] += w[i * ld + in + k] * h[k];
            }
            for (int64_t i = 0; i < hidden; i++) {
                if (gates == 4) {
                    c[i] = logistic_of(z[hidden + i]) * c[i] + logistic_of(z[i]) * tanh(z[2 * hidden + i]);
                }
                h[i] = gates == 4 ? logistic_of(z[3 * hidden + i]) * tanh(c[i]) : tanh(z[i]);
                p->expected[(t * hidden + i) * n + j] = h[i];
            }
        }
    }
    return gates == 4 ? psgd_graph_lstm(p->graph, x, W) : psgd_graph_rnn(p->graph, x, W);
}

static psgd_node plain_rnn(plain *p)
{
    return recurrent(p, 1);
}

static psgd_node plain_lstm(plain *p)
{
    return recurrent(p, 4);
}

static psgd_node plain_embedding(plain *p)
{
    int64_t words = some(p, 6), features = some(p, 3), times = some(p, 4), n = some(p, 5);
    psgd_node x, W;
    const double *token = input(p, 2, (int64_t[]){times, n}, words, &x), *w = parameter(p, words, features + 1, &W);
    for (int64_t i = 0; i < times * features * n; i++) {
        int64_t t = i / n / features, k = i / n % features;
        p->expected[i] = w[(int64_t)token[t * n + i % n] * (features + 1) + k];
    }
    return psgd_graph_embedding(p->graph, x, W);
}

static psgd_node plain_response_norm(plain *p)
{
    int64_t c = some(p, 5), places = some(p, 3), n = some(p, 5), all = places * n;
    psgd_node x;
    const double *a = tensor(p, 4, (int64_t[]){c, 1, places, n}, &x);
    for (int64_t i = 0; i < c * all; i++) {
        double energy = 0;
        for (int64_t k = 0; k < c; k++) energy += a[k * all + i % all] * a[k * all + i % all];
        p->expected[i] = a[i] / pow(2 + 0.3 * (5 / (double)c) * energy, 0.75);
    }
    return psgd_graph_response_norm(p->graph, x, 5, 2, 0.3, 0.75);
}

/* Mean and variance of each feature or channel over all of its elements. */
static psgd_node plain_batch_norm(plain *p)
{
    int64_t c = some(p, 3), w = some(p, 3), n = 1 + some(p, 6);
    bool per_channel = random_below(&p->random, 2);
    int64_t features = per_channel ? c : c * w, size = c * w * n / features;
    psgd_node x;
    const double *a = tensor(p, 3, (int64_t[]){c, w, n}, &x);
    for (int64_t f = 0; f < features; f++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < size; i++) mean += a[f * size + i] / (double)size;
        for (int64_t i = 0; i < size; i++) variance += pow(a[f * size + i] - mean, 2) / (double)size;
        for (int64_t i = 0; i < size; i++) p->expected[f * size + i] = (a[f * size + i] - mean) / sqrt(variance + 0.1);
    }
    return psgd_graph_batch_norm(p->graph, x, per_channel, 0.1);
}

static psgd_node plain_gain(plain *p)
{
    int64_t c = some(p, 3), w = some(p, 3), n = some(p, 6), rows = random_below(&p->random, 2) ? c : c * w;
    psgd_node x, W;
    const double *a = tensor(p, 3, (int64_t[]){c, w, n}, &x), *b = parameter(p, rows, 2, &W);
    for (int64_t i = 0; i < c * w * n; i++) {
        int64_t f = i / (c * w * n / rows);
        p->expected[i] = b[2 * f] * a[i] + b[2 * f + 1];
    }
    return psgd_graph_gain(p->graph, x, W);
}

static psgd_node plain_reshape(plain *p)
{
    int64_t shape[] = {some(p, 4), some(p, 4), some(p, 4)}, size = shape[0] * shape[1] * shape[2];
    psgd_node x;
    memcpy(p->expected, tensor(p, 3, shape, &x), (size_t)size * sizeof(double));
    return psgd_graph_reshape(p->graph, x, 2, (int64_t[]){-1, shape[2]});
}

static psgd_node plain_permute(plain *p)
{
    int64_t s[] = {some(p, 4), some(p, 4), some(p, 4)};
    psgd_node x;
    const double *a = tensor(p, 3, s, &x);
    for (int64_t i = 0; i < s[0] * s[1] * s[2]; i++) { /* [s2, s0, s1] */
        int64_t k = i / s[0] / s[1], m = i / s[1] % s[0], j = i % s[1];
        p->expected[i] = a[(m * s[1] + j) * s[2] + k];
    }
    return psgd_graph_permute(p->graph, x, (int[]){2, 0, 1});
}

static psgd_node plain_concat(plain *p)
{
    int64_t c = some(p, 3), u = some(p, 3), w = some(p, 3), n = some(p, 4);
    psgd_node x, y;
    const double *a = tensor(p, 3, (int64_t[]){c, u, n}, &x), *b = tensor(p, 3, (int64_t[]){c, w, n}, &y);
    for (int64_t i = 0; i < c * (u + w) * n; i++) {
        int64_t k = i / n / (u + w), m = i / n % (u + w), j = i % n;
        p->expected[i] = m < u ? a[(k * u + m) * n + j] : b[(k * w + m - u) * n + j];
    }
    return psgd_graph_concat(p->graph, 2, (psgd_node[]){x, y}, 1);
}

static psgd_node plain_slice(plain *p)
{
    int64_t c = some(p, 3), w = 2 + some(p, 3), n = some(p, 4);
    psgd_node x;
    const double *a = tensor(p, 3, (int64_t[]){c, w, n}, &x);
    for (int64_t i = 0; i < c * 2 * n; i++) p->expected[i] = a[(i / n / 2 * w + 1 + i / n % 2) * n + i % n];
    return psgd_graph_slice(p->graph, x, 1, 1, 2);
}

static const struct {
    const char *op;
    psgd_node (*build)(plain *p);
} cases[] = {
    {"affine", plain_affine},         {"relu", plain_relu},       {"tanh", plain_tanh},
    {"sigmoid", plain_sigmoid},       {"add", plain_add},         {"multiply", plain_multiply},
    {"softmax", plain_softmax},       {"decoder", plain_decoder}, {"logistic", plain_logistic},
    {"squared", plain_squared},       {"l2", plain_l2},           {"max_pool", plain_max_pool},
    {"mean_pool", plain_mean_pool},   {"rnn", plain_rnn},         {"lstm", plain_lstm},
    {"embedding", plain_embedding},   {"gain", plain_gain},       {"response_norm", plain_response_norm},
    {"batch_norm", plain_batch_norm}, {"reshape", plain_reshape}, {"permute", plain_permute},
    {"concat", plain_concat},         {"slice", plain_slice},
};

enum { CASES = sizeof cases / sizeof cases[0] };

/* Sums of a few dozen products of size one. */
static void compare(const plain *p, const char *op, psgd_node y)
{
    const int64_t *shape;
    int ndim = psgd_graph_shape(p->graph, y, &shape);
    int64_t size = 1;
    for (int i = 0; i < ndim; i++) size *= shape[i];
    const double *own = psgd_graph_values(p->graph, y);
    for (int64_t i = 0; i < size; i++) {
        if (fabs(own[i] - p->expected[i]) <= 1e-13 * (1 + fabs(p->expected[i]))) continue;
        print_error("%s, entry %lld: %.17g, by plain loops %.17g\n", op, (long long)i, own[i], p->expected[i]);
        fail();
    }
}

static void values_are_those_of_plain_loops(void **state)
{
    (void)state;
    static plain p;
    for (int k = 0; k < CASES; k++) {
        for (int trial = 0; trial < 12; trial++) {
            double loss;
            memset(&p, 0, sizeof p);
            p.random = 77u * (uint64_t)(k + 1) + 1000003u * (uint64_t)(trial + 1);
            for (int i = 0; i < 9; i++) next_random(&p.random);
            assert_ok(psgd_graph_create(NULL, PSGD_F64, &p.graph));
            psgd_node y = cases[k].build(&p);
            assert_ok(psgd_graph_finish(p.graph, psgd_graph_l2(p.graph, y, 1)));
            for (int i = 0; i < p.data_count; i++) {
                const int64_t *shape;
                int64_t size = 1;
                int ndim = psgd_graph_shape(p.graph, p.data[i], &shape);
                for (int m = 0; m < ndim; m++) size *= shape[m];
                memcpy(psgd_graph_values(p.graph, p.data[i]), p.values[i], (size_t)size * sizeof(double));
            }
            assert_ok(psgd_graph_loss(p.graph, p.theta, &loss));
            compare(&p, cases[k].op, y);
            psgd_graph_free(p.graph);
        }
    }
}

static void every_op_has_its_loops(void **state)
{
    (void)state;
    for (int i = 0; psgd__op_at(PSGD_F64, i); i++) {
        const char *name = psgd__op_at(PSGD_F64, i)->name;
        bool found = !strcmp(name, "convolution") || !strcmp(name, "dropout");
        for (int k = 0; k < CASES; k++) found = found || !strcmp(cases[k].op, name);
        if (!found) print_error("no plain loops for op %s\n", name);
        assert_true(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_its_loops),
        cmocka_unit_test(values_are_those_of_plain_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
