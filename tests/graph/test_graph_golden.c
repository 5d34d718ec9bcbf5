/* Loss, gradient and Hv against PyTorch's double backward: tests/golden/graph.txt, written by make_graph.py next to it.
 */
#include "support.h"

#include "model/model.h"

enum { MAX = 300000 };

static void wave(int64_t n, double scale, double speed, double phase, double *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = scale * sin(speed * (double)i + phase);
}

/* Sines of squares: no window sees a periodic pattern. */
static void chirp(int64_t n, double scale, double *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = scale * sin(0.37 * ((double)i * (double)i));
}

static void fill(psgd_graph *g, psgd_node node, double speed, double phase)
{
    const int64_t *shape;
    int ndim = psgd_graph_shape(g, node, &shape);
    int64_t size = 1;
    for (int i = 0; i < ndim; i++) size *= shape[i];
    wave(size, 1, speed, phase, psgd_graph_values(g, node));
}

static psgd_graph *build_model(const char *name, const model_shape *shape, const model_settings *settings)
{
    const model *kind;
    psgd_graph *g;
    model_nodes nodes;
    assert_ok(psgd__model_find(name, &kind));
    assert_ok(psgd__model_graph(NULL, kind, PSGD_F64, shape, settings, &g, &nodes));
    fill(g, nodes.x, 0.7, 0.3);
    double *y = psgd_graph_values(g, nodes.y);
    for (int64_t j = 0; j < shape->n; j++) y[j] = (double)(j % shape->classes);
    return g;
}

static psgd_graph *build_mixed(void)
{
    psgd_graph *g;
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
    psgd_node x = psgd_graph_input(g, 4, (int64_t[]){2, 9, 8, 4}), t = psgd_graph_input(g, 2, (int64_t[]){3, 4});
    psgd_node W1 = psgd_graph_parameter(g, "W1", 3, 19), W2 = psgd_graph_parameter(g, "W2", 3, 37);
    psgd_node a = psgd_graph_leaky_relu(g, psgd_graph_convolution(g, x, W1, 3, 3, 2, 1), 0.1);
    a = psgd_graph_batch_norm(g, psgd_graph_response_norm(g, a, 5, 2, 0.3, 0.75), true, 0.01);
    a = psgd_graph_sigmoid(g, psgd_graph_affine(g, psgd_graph_mean_pool(g, a, 2, 1), W2));
    assert_ok(psgd_graph_finish(g, psgd_graph_add(g, psgd_graph_squared(g, a, t), psgd_graph_l2(g, W1, 0.1))));
    fill(g, x, 0.7, 0.3);
    fill(g, t, 0.4, 0.1);
    return g;
}

static psgd_graph *build_normalised(void)
{
    psgd_graph *g;
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
    psgd_node x = psgd_graph_input(g, 4, (int64_t[]){2, 6, 5, 7}), y = psgd_graph_input(g, 1, (int64_t[]){7});
    psgd_node a = psgd_graph_convolution(g, x, psgd_graph_parameter(g, "W1", 3, 19), 3, 3, 1, 0);
    a = psgd_graph_gain(g, psgd_graph_batch_norm(g, a, true, 0.01), psgd_graph_parameter(g, "G1", 3, 2));
    a = psgd_graph_affine(g, psgd_graph_relu(g, a), psgd_graph_parameter(g, "W2", 5, 37));
    a = psgd_graph_gain(g, psgd_graph_batch_norm(g, a, false, 0.1), psgd_graph_parameter(g, "G2", 5, 2));
    assert_ok(psgd_graph_finish(g, psgd_graph_softmax(g, a, y)));
    fill(g, x, 0.7, 0.3);
    for (int j = 0; j < 7; j++) ((double *)psgd_graph_values(g, y))[j] = j % 5;
    return g;
}

static psgd_graph *build_tied(void)
{
    psgd_graph *g;
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
    psgd_node x = psgd_graph_input(g, 2, (int64_t[]){5, 4}), y = psgd_graph_input(g, 2, (int64_t[]){5, 4});
    psgd_node W = psgd_graph_parameter(g, "W", 11, 4);
    psgd_node h = psgd_graph_lstm(g, psgd_graph_embedding(g, x, W), psgd_graph_parameter(g, "L", 12, 7));
    assert_ok(psgd_graph_finish(g, psgd_graph_decoder(g, h, W, y)));
    for (int i = 0; i < 20; i++) {
        int token = i * 7 % 11;
        ((double *)psgd_graph_values(g, x))[i] = token;
        ((double *)psgd_graph_values(g, y))[i] = (token * 3 + 1) % 11;
    }
    return g;
}

static psgd_graph *build_shapes(void)
{
    psgd_graph *g;
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
    psgd_node x = psgd_graph_input(g, 2, (int64_t[]){6, 5});
    psgd_node a = psgd_graph_tanh(g, psgd_graph_affine(g, x, psgd_graph_parameter(g, "W1", 6, 7)));
    psgd_node b = psgd_graph_affine(g, x, psgd_graph_parameter(g, "W2", 6, 7));
    a = psgd_graph_reshape(g, a, 3, (int64_t[]){2, 3, 5});
    b = psgd_graph_permute(g, psgd_graph_reshape(g, b, 3, (int64_t[]){3, 2, 5}), (int[]){1, 0, 2});
    psgd_node c = psgd_graph_concat(g, 2, (psgd_node[]){psgd_graph_multiply(g, a, b), b}, 1);
    c = psgd_graph_slice(g, c, 1, 1, 4);
    c = psgd_graph_sigmoid(g, psgd_graph_add(g, c, psgd_graph_multiply(g, c, c)));
    assert_ok(psgd_graph_finish(g, psgd_graph_l2(g, c, 1)));
    fill(g, x, 0.7, 0.3);
    return g;
}

static psgd_graph *build_alexnet(bool normalise)
{
    const model *kind;
    psgd_graph *g;
    model_nodes nodes;
    assert_ok(psgd__model_find("alexnet", &kind));
    assert_ok(psgd__model_graph(NULL, kind, PSGD_F64,
                                &(model_shape){.ndim = 3, .sample = {3, 32, 32}, .n = 4, .classes = 10},
                                &(model_settings){.size = 1, .l2 = 5e-4, .normalise = normalise}, &g, &nodes));
    chirp(3 * 32 * 32 * 4, 60, psgd_graph_values(g, nodes.x));
    for (int64_t j = 0; j < 4; j++) ((double *)psgd_graph_values(g, nodes.y))[j] = (double)j;
    return g;
}

static psgd_graph *build(const char *name)
{
    if (!strncmp(name, "alexnet", 7)) return build_alexnet(!strcmp(name, "alexnet_normalise"));
    if (!strcmp(name, "mixed")) return build_mixed();
    if (!strcmp(name, "normalised")) return build_normalised();
    if (!strcmp(name, "tied")) return build_tied();
    if (!strcmp(name, "shapes")) return build_shapes();
    if (!strcmp(name, "logistic")) {
        return build_model(name, &(model_shape){.ndim = 1, .sample = {6}, .n = 5, .classes = 4},
                           &(model_settings){.hidden = 1});
    }
    if (!strcmp(name, "lenet5")) {
        return build_model(name, &(model_shape){.ndim = 3, .sample = {1, 28, 28}, .n = 3, .classes = 10},
                           &(model_settings){.hidden = 1});
    }
    if (!strcmp(name, "mlp")) {
        return build_model(name, &(model_shape){.ndim = 1, .sample = {6}, .n = 5, .classes = 4},
                           &(model_settings){.hidden = 7, .layers = 1, .activation = 1});
    }
    return build_model(name, &(model_shape){.ndim = 2, .sample = {7, 2}, .n = 4, .classes = 2},
                       &(model_settings){.hidden = 5});
}

static void assert_golden(const char *name, const char *what, long long i, double own, double theirs, double scale)
{
    /* Both sides sum a few thousand products of size one in float64. */
    if (fabs(own - theirs) <= 1e-12 * (1 + scale)) return;
    print_error("%s, %s at %lld: %.17g, PyTorch %.17g\n", name, what, i, own, theirs);
    fail();
}

static void matches_pytorch(void **state)
{
    (void)state;
    static double theta[MAX], v[MAX], gradient[MAX], hv[MAX];
    FILE *file = fopen(PSGD_SOURCE_DIR "/tests/golden/graph.txt", "r");
    assert_non_null(file);
    char line[256], name[32] = "";
    int networks = 0, entries = 0;
    double scale = 0;
    psgd_graph *g = NULL;
    while (fgets(line, sizeof line, file)) {
        long long i, n;
        double loss;
        char a[64], b[64];
        if (sscanf(line, "%lld %63s %63s", &i, a, b) == 3) {
            assert_golden(name, "gradient", i, gradient[i], psgd__to_number(a, NULL), scale);
            assert_golden(name, "Hv", i, hv[i], psgd__to_number(b, NULL), scale);
            entries++;
            continue;
        }
        assert_int_equal(sscanf(line, "%31s %lld %63s", name, &n, a), 3);
        double expected = psgd__to_number(a, NULL);
        psgd_graph_free(g);
        g = build(name);
        assert_int_equal(psgd_graph_parameters(g), n);
        if (!strncmp(name, "alexnet", 7)) {
            chirp(n, 0.08, theta);
        } else {
            wave(n, 0.3, 1.3, 0.5, theta);
        }
        wave(n, 1, 0.9, 1.2, v);
        assert_ok(psgd_graph_hessian(g, theta, v, gradient, hv, &loss));
        assert_golden(name, "loss", 0, loss, expected, fabs(expected));
        scale = 0;
        for (long long k = 0; k < n; k++) scale = fmax(scale, fabs(hv[k]));
        networks++;
    }
    psgd_graph_free(g);
    fclose(file);
    assert_int_equal(networks, 11);
    assert_true(entries > 430);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
