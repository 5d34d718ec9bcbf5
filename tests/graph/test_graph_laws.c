/* Laws that every op of the registry must obey, on random shapes: the gradient matches central differences of the loss,
 * Hv matches central differences of the gradient, <u, Hv> = <v, Hu>, Hv is linear in v, and a run with Hv gives the
 * same gradient as a run without. Each op stands between a matrix and a curved loss, so that its input and output have
 * non-trivial values, gradients and tangents. */
#define PSGD_TYPED_SOURCE /* for the rule of la/conv.h, which is the same for both number types */
#include "support.h"

#include "graph/ops.h"
#include "la/network/conv.h"

enum { MAX = 16384 };

typedef struct scene {
    uint64_t random;
    psgd_graph *graph;
    psgd_dtype dtype;
    psgd_node inputs[8];
    int input_count;
    int64_t classes[8]; /* 0: normal numbers; else whole numbers below it */
    int parameters;
} scene;

static int64_t below(scene *s, int64_t n)
{
    return random_below(&s->random, n);
}

/* Data of this shape: normal deviates, or class labels. */
static psgd_node data(scene *s, int ndim, const int64_t *shape, int64_t classes)
{
    psgd_node node = psgd_graph_input(s->graph, ndim, shape);
    s->classes[s->input_count] = classes;
    s->inputs[s->input_count++] = node;
    return node;
}

static psgd_node matrix(scene *s, int64_t rows, int64_t columns)
{
    char name[16];
    snprintf(name, sizeof name, "W%d", s->parameters++);
    return psgd_graph_parameter(s->graph, name, rows, columns);
}

/* A live tensor: an affine map of data. */
static psgd_node live(scene *s, int ndim, const int64_t *shape)
{
    int64_t n = shape[ndim - 1], features = 1, in = 1 + below(s, 3);
    for (int i = 0; i + 1 < ndim; i++) features *= shape[i];
    psgd_node x = psgd_graph_affine(s->graph, data(s, 2, (int64_t[]){in, n}, 0), matrix(s, features, in + 1));
    return psgd_graph_reshape(s->graph, x, ndim, shape);
}

/* A curved loss of x: half the mean square of tanh(x) minus data, weighted so that no symmetry hides an error. */
static psgd_node curved(scene *s, psgd_node x)
{
    const int64_t *shape;
    int ndim = psgd_graph_shape(s->graph, x, &shape);
    int64_t copy[PSGD_MAX_DIMS];
    for (int i = 0; i < ndim; i++) copy[i] = shape[i];
    psgd_node y = psgd_graph_tanh(s->graph, psgd_graph_multiply(s->graph, x, data(s, ndim, copy, 0)));
    return psgd_graph_squared(s->graph, y, data(s, ndim, copy, 0));
}

static psgd_node scene_affine(scene *s)
{
    int64_t in = 1 + below(s, 5), n = 1 + below(s, 20);
    return curved(s, psgd_graph_affine(s->graph, live(s, 2, (int64_t[]){in, n}), matrix(s, 1 + below(s, 9), in + 1)));
}

static psgd_node scene_elementwise(scene *s, psgd_node (*add)(psgd_graph *, psgd_node))
{
    return curved(s, add(s->graph, live(s, 2, (int64_t[]){1 + below(s, 5), 1 + below(s, 20)})));
}

static psgd_node scene_relu(scene *s)
{
    psgd_node x = live(s, 2, (int64_t[]){1 + below(s, 5), 1 + below(s, 20)});
    psgd_node y = psgd_graph_leaky_relu(s->graph, psgd_graph_tanh(s->graph, x), below(s, 2) ? 0.1 : 0);
    return curved(s, y);
}

static psgd_node scene_tanh(scene *s)
{
    return scene_elementwise(s, psgd_graph_tanh);
}

static psgd_node scene_sigmoid(scene *s)
{
    return scene_elementwise(s, psgd_graph_sigmoid);
}

/* a + b and a b, where a is used twice and b may be data. */
static psgd_node scene_pair(scene *s, psgd_node (*add)(psgd_graph *, psgd_node, psgd_node))
{
    int64_t shape[] = {1 + below(s, 4), 1 + below(s, 20)};
    psgd_node a = live(s, 2, shape), b = below(s, 2) ? live(s, 2, shape) : data(s, 2, shape, 0);
    return curved(s, add(s->graph, a, add(s->graph, b, a)));
}

static psgd_node scene_add(scene *s)
{
    return scene_pair(s, psgd_graph_add);
}

static psgd_node scene_multiply(scene *s)
{
    return scene_pair(s, psgd_graph_multiply);
}

static psgd_node scene_softmax(scene *s)
{
    int64_t classes = 1 + below(s, 7), n = 1 + below(s, 90);
    psgd_node x = live(s, 2, (int64_t[]){classes, n});
    psgd_node loss = psgd_graph_softmax(s->graph, x, data(s, 1, (int64_t[]){n}, classes));
    return psgd_graph_multiply(s->graph, loss, psgd_graph_l2(s->graph, x, 0.3));
}

static psgd_node scene_logistic(scene *s)
{
    int64_t shape[] = {1 + below(s, 3), 1 + below(s, 20)};
    psgd_node x = live(s, 2, shape), loss = psgd_graph_logistic(s->graph, x, data(s, 2, shape, 2));
    return psgd_graph_multiply(s->graph, loss, loss);
}

static psgd_node scene_squared(scene *s)
{
    int64_t shape[] = {1 + below(s, 3), 1 + below(s, 20)};
    psgd_node x = live(s, 2, shape), loss = psgd_graph_squared(s->graph, x, data(s, 2, shape, 0));
    return psgd_graph_multiply(s->graph, loss, loss);
}

static psgd_node scene_l2(scene *s)
{
    psgd_node W = matrix(s, 1 + below(s, 4), 1 + below(s, 5)), penalty = psgd_graph_l2(s->graph, W, 0.7);
    return psgd_graph_multiply(s->graph, penalty, penalty);
}

/* Winograd: 16 channels to 16, the smallest count for which la/network/conv.c chooses it. */
static psgd_node scene_points(scene *s)
{
    int64_t window = below(s, 2) ? 3 : 5, padding = below(s, 3), n = 1 + below(s, 3);
    int64_t min = window > 2 * padding ? window - 2 * padding : 1;
    int64_t shape[] = {16, min + below(s, 4), min + below(s, 4), n};
    psgd_node x = below(s, 2) ? live(s, 4, shape) : data(s, 4, shape, 0), W = matrix(s, 16, window * window * 16 + 1);
    psgd_node y = psgd_graph_convolution(s->graph, x, W, window, window, 1, padding);
    la_conv rule = {.c = 16, .out = 16, .kh = window, .kw = window, .stride = 1};
    assert_true(la_conv_winograd(&rule));
    return curved(s, y);
}

static psgd_node scene_convolution(scene *s)
{
    int64_t c = 1 + below(s, 3), n = 1 + below(s, 20), kh = 1 + below(s, 3), kw = 1 + below(s, 3);
    int64_t padding = kh > 1 && kw > 1 ? below(s, 2) : 0, stride = 1 + below(s, 3);
    int64_t shape[] = {c, kh + below(s, 4), kw + below(s, 4), n};
    psgd_node x = live(s, 4, shape), W = matrix(s, 1 + below(s, 4), kh * kw * c + 1);
    return curved(s, psgd_graph_convolution(s->graph, x, W, kh, kw, stride, padding));
}

static psgd_node scene_pool(scene *s, psgd_node (*add)(psgd_graph *, psgd_node, int64_t, int64_t))
{
    int64_t size = 1 + below(s, 3), stride = 1 + below(s, 3);
    int64_t shape[] = {1 + below(s, 3), size + below(s, 4), size + below(s, 4), 1 + below(s, 20)};
    return curved(s, add(s->graph, live(s, 4, shape), size, stride));
}

static psgd_node scene_max_pool(scene *s)
{
    return scene_pool(s, psgd_graph_max_pool);
}

static psgd_node scene_mean_pool(scene *s)
{
    return scene_pool(s, psgd_graph_mean_pool);
}

/* Sometimes wider than the offset tables of the small kernels. */
static psgd_node scene_rnn(scene *s)
{
    bool wide = below(s, 5) == 0;
    int64_t in = wide ? 4100 : 1 + below(s, 3), hidden = wide ? 1 : 1 + below(s, 4);
    int64_t n = 1 + below(s, wide ? 3 : 70), times = 1 + below(s, wide ? 2 : 4);
    int64_t shape[] = {times, in, n};
    psgd_node x = !wide && below(s, 2) ? live(s, 3, shape) : data(s, 3, shape, 0);
    return curved(s, psgd_graph_rnn(s->graph, x, matrix(s, hidden, in + hidden + 1)));
}

static psgd_node scene_lstm(scene *s)
{
    bool large = below(s, 4) == 0; /* enough for BLAS */
    int64_t in = large ? 20 : 1 + below(s, 3), hidden = large ? 45 : 1 + below(s, 4);
    int64_t n = 1 + below(s, large ? 5 : 70), times = 1 + below(s, 4);
    int64_t shape[] = {times, in, n};
    psgd_node x = below(s, 2) ? live(s, 3, shape) : data(s, 3, shape, 0);
    return curved(s, psgd_graph_lstm(s->graph, x, matrix(s, 4 * hidden, in + hidden + 1)));
}

/* Tied to the decoder: the same matrix makes the logits. */
static psgd_node scene_embedding(scene *s)
{
    int64_t words = 1 + below(s, 6), features = 1 + below(s, 3), n = 1 + below(s, 9), times = 1 + below(s, 4);
    psgd_node W = matrix(s, words, features + 1);
    psgd_node x = psgd_graph_embedding(s->graph, data(s, 2, (int64_t[]){times, n}, words), W);
    psgd_node flat = psgd_graph_permute(s->graph, psgd_graph_tanh(s->graph, x), (int[]){1, 0, 2});
    psgd_node logits = psgd_graph_affine(s->graph,
                                         psgd_graph_reshape(s->graph, flat, 2, (int64_t[]){features, times * n}), W);
    return psgd_graph_softmax(s->graph, logits, data(s, 1, (int64_t[]){times * n}, words));
}

/* Tied to the embedding as in a language model; sometimes with more words than a block has. */
static psgd_node scene_decoder(scene *s)
{
    int64_t words = below(s, 3) ? 1 + below(s, 6) : 257 + below(s, 40);
    int64_t features = words > 9 ? 1 : 1 + below(s, 3), n = 1 + below(s, 9), times = 1 + below(s, 4);
    int64_t shape[] = {times, n};
    psgd_node W = matrix(s, words, features + 1);
    psgd_node x = psgd_graph_tanh(s->graph, psgd_graph_embedding(s->graph, data(s, 2, shape, words), W));
    psgd_node loss = psgd_graph_decoder(s->graph, x, W, data(s, 2, shape, words));
    return psgd_graph_multiply(s->graph, loss, psgd_graph_l2(s->graph, x, 0.3));
}

static psgd_node scene_dropout(scene *s)
{
    psgd_node x = live(s, 2, (int64_t[]){1 + below(s, 5), 1 + below(s, 20)});
    return curved(s, psgd_graph_dropout(s->graph, x, 0.4));
}

static psgd_node scene_response_norm(scene *s)
{
    int64_t shape[] = {1 + below(s, 5), 1 + below(s, 3), 1 + below(s, 3), 1 + below(s, 20)};
    return curved(s, psgd_graph_response_norm(s->graph, live(s, 4, shape), 5, 2, 0.3, 0.75));
}

static psgd_node scene_batch_norm(scene *s)
{
    int64_t shape[] = {1 + below(s, 3), 1 + below(s, 3), 1 + below(s, 2), 3 + below(s, 20)};
    return curved(s, psgd_graph_batch_norm(s->graph, live(s, 4, shape), below(s, 2), 0.01));
}

/* One row per feature or per channel; the input may be data. */
static psgd_node scene_gain(scene *s)
{
    int64_t shape[] = {1 + below(s, 3), 1 + below(s, 3), 1 + below(s, 2), 1 + below(s, 20)};
    psgd_node x = below(s, 4) ? live(s, 4, shape) : data(s, 4, shape, 0);
    psgd_node W = matrix(s, below(s, 2) ? shape[0] : shape[0] * shape[1] * shape[2], 2);
    return curved(s, psgd_graph_gain(s->graph, x, W));
}

static psgd_node scene_reshape(scene *s)
{
    int64_t a = 1 + below(s, 3), b = 1 + below(s, 3), n = 1 + below(s, 9);
    return curved(s, psgd_graph_reshape(s->graph, live(s, 3, (int64_t[]){a, b, n}), 2, (int64_t[]){-1, b * n}));
}

static psgd_node scene_permute(scene *s)
{
    int64_t shape[] = {1 + below(s, 3), 1 + below(s, 3), 1 + below(s, 9)};
    static const int orders[][3] = {{0, 1, 2}, {2, 0, 1}, {1, 0, 2}, {2, 1, 0}};
    return curved(s, psgd_graph_permute(s->graph, live(s, 3, shape), orders[below(s, 4)]));
}

static psgd_node scene_concat(scene *s)
{
    int mode = (int)below(s, 3);
    int64_t shape[] = {1 + below(s, 3), 1 + below(s, 3), 1 + below(s, 9)};
    psgd_node parts[3];
    for (int i = 0; i < 3; i++) {
        shape[mode] = 1 + below(s, 4);
        parts[i] = i == 1 ? data(s, 3, shape, 0) : live(s, 3, shape);
    }
    return curved(s, psgd_graph_concat(s->graph, 3, parts, mode));
}

static psgd_node scene_slice(scene *s)
{
    int mode = (int)below(s, 3);
    int64_t shape[] = {1 + below(s, 4), 1 + below(s, 4), 1 + below(s, 9)};
    int64_t count = 1 + below(s, shape[mode]), from = below(s, shape[mode] - count + 1);
    return curved(s, psgd_graph_slice(s->graph, live(s, 3, shape), mode, from, count));
}

static const struct {
    const char *op;
    psgd_node (*build)(scene *);
    int trials;
} scenes[] = {
    {"affine", scene_affine, 6},
    {"relu", scene_relu, 6},
    {"tanh", scene_tanh, 4},
    {"sigmoid", scene_sigmoid, 4},
    {"add", scene_add, 6},
    {"multiply", scene_multiply, 6},
    {"softmax", scene_softmax, 8},
    {"logistic", scene_logistic, 4},
    {"squared", scene_squared, 4},
    {"l2", scene_l2, 2},
    {"convolution", scene_convolution, 20},
    {"max_pool", scene_max_pool, 8},
    {"mean_pool", scene_mean_pool, 8},
    {"rnn", scene_rnn, 10},
    {"lstm", scene_lstm, 10},
    {"embedding", scene_embedding, 6},
    {"decoder", scene_decoder, 9},
    {"dropout", scene_dropout, 4},
    {"response_norm", scene_response_norm, 6},
    {"batch_norm", scene_batch_norm, 6},
    {"gain", scene_gain, 8},
    {"reshape", scene_reshape, 4},
    {"permute", scene_permute, 6},
    {"concat", scene_concat, 6},
    {"slice", scene_slice, 6},
    {"convolution", scene_points, 12},
};

enum { SCENES = sizeof scenes / sizeof scenes[0] };

static void set(psgd_dtype dtype, void *x, int64_t i, double value)
{
    if (dtype == PSGD_F64) ((double *)x)[i] = value;
    if (dtype == PSGD_F32) ((float *)x)[i] = (float)value;
}

static void open_scene(scene *s, int index, int trial, psgd_dtype dtype)
{
    *s = (scene){.random = 1000u * (uint64_t)(index + 1) + (uint64_t)trial + 1, .dtype = dtype};
    for (int i = 0; i < 9; i++) next_random(&s->random);
    assert_ok(psgd_graph_create(NULL, dtype, &s->graph));
    psgd_status status = psgd_graph_finish(s->graph, scenes[index].build(s));
    if (status != PSGD_OK) print_error("%s: %s\n", scenes[index].op, psgd_last_error());
    assert_int_equal(status, PSGD_OK);
    assert_true(psgd_graph_parameters(s->graph) <= MAX);
    for (int k = 0; k < s->input_count; k++) {
        const int64_t *shape;
        int ndim = psgd_graph_shape(s->graph, s->inputs[k], &shape);
        int64_t size = 1;
        for (int i = 0; i < ndim; i++) size *= shape[i];
        for (int64_t i = 0; i < size; i++) {
            double x = s->classes[k] ? (double)below(s, s->classes[k]) : random_normal(&s->random);
            set(dtype, psgd_graph_values(s->graph, s->inputs[k]), i, x);
        }
    }
    void *state;
    int64_t count = psgd_graph_state(s->graph, &state);
    for (int64_t i = 0; i < count; i++) set(dtype, state, i, 0.5 * random_normal(&s->random));
    psgd_graph_set_step(s->graph, 7, 3);
}

static double slab_dot(int64_t n, const double *x, const double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static double gradient_at(scene *s, int64_t n, const double *theta, double c, const double *v, double *gradient)
{
    static double moved[MAX];
    double loss;
    for (int64_t i = 0; i < n; i++) moved[i] = theta[i] + c * v[i];
    assert_ok(psgd_graph_gradient(s->graph, moved, gradient, &loss));
    return loss;
}

static void assert_near(const char *what, int index, int trial, double a, double b, double tolerance)
{
    if (fabs(a - b) <= tolerance) return;
    print_error("%s, %s, trial %d: %.12g against %.12g, allowed %.3g\n", scenes[index].op, what, trial, a, b,
                tolerance);
    fail();
}

/* Fourth-order central differences with step 1e-3: the truncation error is about 1e-12 of the fifth derivative, and
 * rounding adds 1e-16 / 1e-3. */
static void check_differences(scene *s, int index, int trial, int64_t n, const double *theta)
{
    static double v[MAX], u[MAX], g[MAX], hv[MAX], hu[MAX], sum[MAX], hsum[MAX], near[4][MAX];
    static const double at[] = {-2e-3, -1e-3, 1e-3, 2e-3}, weight[] = {1, -8, 8, -1};
    double loss, other, slope = 0, scale = 0;
    for (int64_t i = 0; i < n; i++) {
        v[i] = random_normal(&s->random) / sqrt((double)n);
        u[i] = random_normal(&s->random) / sqrt((double)n);
        sum[i] = 2 * v[i] - 0.5 * u[i];
    }
    assert_ok(psgd_graph_hessian(s->graph, theta, v, g, hv, &loss));
    assert_ok(psgd_graph_hessian(s->graph, theta, u, near[0], hu, &other));
    assert_ok(psgd_graph_hessian(s->graph, theta, sum, near[0], hsum, &other));
    double own = gradient_at(s, n, theta, 0, v, near[0]);
    assert_near("loss", index, trial, own, loss, 0);
    for (int64_t i = 0; i < n; i++) assert_near("gradient with and without Hv", index, trial, g[i], near[0][i], 0);
    for (int k = 0; k < 4; k++) slope += weight[k] * gradient_at(s, n, theta, at[k], v, near[k]) / 12e-3;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(hv[i]));
    assert_near("gradient", index, trial, slab_dot(n, g, v), slope, 1e-7 * (1 + fabs(slope)));
    for (int64_t i = 0; i < n; i++) {
        double h = 0;
        for (int k = 0; k < 4; k++) h += weight[k] * near[k][i] / 12e-3;
        assert_near("Hv", index, trial, hv[i], h, 1e-6 * (1 + scale));
        assert_near("linear", index, trial, hsum[i], 2 * hv[i] - 0.5 * hu[i], 1e-11 * (1 + scale));
    }
    double uhv = slab_dot(n, u, hv), vhu = slab_dot(n, v, hu);
    assert_near("symmetry", index, trial, uhv, vhu, 1e-11 * (1 + (double)n * scale));
}

static void differences_symmetry_linearity(void **state)
{
    (void)state;
    static double theta[MAX];
    for (int index = 0; index < SCENES; index++) {
        for (int trial = 0; trial < scenes[index].trials; trial++) {
            scene s;
            open_scene(&s, index, trial, PSGD_F64);
            int64_t n = psgd_graph_parameters(s.graph);
            for (int64_t i = 0; i < n; i++) theta[i] = 0.7 * random_normal(&s.random);
            check_differences(&s, index, trial, n, theta);
            psgd_graph_free(s.graph);
        }
    }
}

/* f32 against f64 on the same values, which f32 represents exactly. The bound is a few hundred roundings. For Winograd
 * it is ten times that, except for the loss: its sums of up to 400 terms are of size 10 with twelve times the rounding
 * of plain ones, and where the tanh after them is flat, its slope has twice the error of the sum. */
static void compare_types(int index, int trial)
{
    static double theta[MAX], v[MAX], g[MAX], hv[MAX];
    static float theta_f[MAX], v_f[MAX], g_f[MAX], hv_f[MAX];
    scene s, f;
    double loss, loss_f, max = 1, scale = 1, bound = scenes[index].build == scene_points ? 1e-3 : 1e-4;
    open_scene(&f, index, trial, PSGD_F32);
    open_scene(&s, index, trial, PSGD_F64);
    int64_t n = psgd_graph_parameters(s.graph);
    for (int64_t i = 0; i < n; i++) {
        theta[i] = theta_f[i] = (float)(0.7 * random_normal(&s.random));
        v[i] = v_f[i] = (float)random_normal(&s.random);
    }
    assert_ok(psgd_graph_hessian(s.graph, theta, v, g, hv, &loss));
    assert_ok(psgd_graph_hessian(f.graph, theta_f, v_f, g_f, hv_f, &loss_f));
    for (int64_t i = 0; i < n; i++) {
        max = fmax(max, fabs(hv[i]));
        scale = fmax(scale, fabs(g[i]));
    }
    assert_near("loss in f32", index, trial, loss_f, loss, 1e-4 * (1 + fabs(loss)));
    for (int64_t i = 0; i < n; i++) {
        assert_near("gradient in f32", index, trial, g_f[i], g[i], bound * scale);
        assert_near("Hv in f32", index, trial, hv_f[i], hv[i], bound * max);
    }
    psgd_graph_free(s.graph);
    psgd_graph_free(f.graph);
}

static void single_follows_double(void **state)
{
    (void)state;
    for (int index = 0; index < SCENES; index++) {
        int trials = scenes[index].build == scene_points ? scenes[index].trials : 1;
        for (int trial = 0; trial < trials; trial++) compare_types(index, trial);
    }
}

static void every_op_has_a_scene(void **state)
{
    (void)state;
    for (int i = 0; psgd__op_at(PSGD_F64, i); i++) {
        bool found = false;
        for (int k = 0; k < SCENES; k++) found = found || !strcmp(scenes[k].op, psgd__op_at(PSGD_F64, i)->name);
        if (!found) print_error("no scene for op %s\n", psgd__op_at(PSGD_F64, i)->name);
        assert_true(found);
        assert_string_equal(psgd__op_at(PSGD_F32, i)->name, psgd__op_at(PSGD_F64, i)->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_scene),
        cmocka_unit_test(differences_symmetry_linearity),
        cmocka_unit_test(single_follows_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
