/* AlexNet: the shapes, the number of parameters and the start that the paper has, and the laws of a graph on the small
 * one: gradients against differences of losses, Hv against differences of gradients, H symmetric, masks included. */
#include "support.h"

#include "model/model.h"

static const model *kind_of(void)
{
    const model *kind;
    assert_ok(psgd__model_find("alexnet", &kind));
    return kind;
}

static psgd_graph *full_size(model_nodes *nodes)
{
    psgd_graph *g;
    model_shape shape = {.ndim = 3, .sample = {3, 227, 227}, .n = 1, .classes = 1000};
    assert_ok(psgd__model_graph(NULL, kind_of(), PSGD_F32, &shape,
                                &(model_settings){.size = 0, .l2 = 5e-4, .dropout = 0.5}, &g, nodes));
    return g;
}

static void full_size_has_the_matrices_of_the_paper(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {
        {96, 11 * 11 * 3 + 1},  {256, 5 * 5 * 96 + 1},   {384, 3 * 3 * 256 + 1}, {384, 3 * 3 * 384 + 1},
        {256, 3 * 3 * 384 + 1}, {4096, 6 * 6 * 256 + 1}, {4096, 4096 + 1},       {1000, 4096 + 1},
    };
    model_nodes nodes;
    psgd_graph *g = full_size(&nodes);
    int64_t scan = 0;
    assert_int_equal(psgd_graph_parameter_count(g), 8);
    for (int i = 0; i < 8; i++) {
        int64_t size, bytes;
        double ignored[4];
        const int64_t *own = psgd_graph_parameter_shape(g, i);
        assert_int_equal(own[0], shapes[i][0]);
        assert_int_equal(own[1], shapes[i][1]);
        assert_ok(psgd_group_cost(NULL, "scan", 2, own, PSGD_F32, &size, &bytes, &ignored[0], &ignored[1], &ignored[2],
                                  &ignored[3]));
        scan += size;
    }
    assert_int_equal(psgd_graph_parameters(g), 62378344);
    assert_int_equal(scan, 69350);
    const int64_t *output;
    assert_int_equal(psgd_graph_shape(g, nodes.output, &output), 2);
    assert_int_equal(output[0], 1000);
    psgd_graph_free(g);
}

/* Mean, deviation and bias of every layer; n deviates tell the deviation to a few / sqrt(2 n). */
static void starts_as_the_paper_says(void **state)
{
    (void)state;
    static const double bias[] = {0, 1, 0, 1, 1, 1, 1, 0};
    model_nodes nodes;
    psgd_graph *g = full_size(&nodes);
    float *theta = malloc((size_t)psgd_graph_parameters(g) * sizeof *theta);
    assert_non_null(theta);
    assert_ok(psgd__model_start(NULL, kind_of(), g, PSGD_F32, 5, theta));
    for (int i = 0; i < 8; i++) {
        const int64_t *shape = psgd_graph_parameter_shape(g, i);
        const float *W = theta + psgd_graph_parameter_offset(g, i);
        double sum = 0, squares = 0, count = (double)(shape[0] * (shape[1] - 1));
        for (int64_t r = 0; r < shape[0]; r++) {
            for (int64_t c = 0; c + 1 < shape[1]; c++) {
                double w = (double)W[r * shape[1] + c];
                sum += w;
                squares += w * w;
            }
            assert_true((double)W[r * shape[1] + shape[1] - 1] == bias[i]);
        }
        assert_true(fabs(sum / count) < 0.01 * 5 / sqrt(count));
        assert_true(fabs(sqrt(squares / count) / 0.01 - 1) < 5 / sqrt(2 * count));
    }
    free(theta);
    psgd_graph_free(g);
}

enum { SMALL = 292010 };

static psgd_graph *small_size(bool normalise, double dropout, double *theta)
{
    psgd_graph *g;
    model_nodes nodes;
    uint64_t random = 3;
    model_shape shape = {.ndim = 3, .sample = {3, 32, 32}, .n = 5, .classes = 10};
    assert_ok(psgd__model_graph(NULL, kind_of(), PSGD_F64, &shape,
                                &(model_settings){.size = 1, .l2 = 5e-4, .dropout = dropout, .normalise = normalise},
                                &g, &nodes));
    assert_int_equal(psgd_graph_parameters(g), SMALL);
    for (int i = 0; i < 3 * 32 * 32 * 5; i++) {
        ((double *)psgd_graph_values(g, nodes.x))[i] = 60 * random_normal(&random);
    }
    for (int j = 0; j < 5; j++) ((double *)psgd_graph_values(g, nodes.y))[j] = 2 * j;
    assert_ok(psgd__model_start(NULL, kind_of(), g, PSGD_F64, 7, theta));
    psgd_graph_set_step(g, 11, 3);
    return g;
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < SMALL; i++) sum += a[i] * b[i];
    return sum;
}

static void moved(const double *theta, double c, const double *v, double *to)
{
    for (int i = 0; i < SMALL; i++) to[i] = theta[i] + c * v[i];
}

/* Along v: (f(theta + c v) - f(theta - c v)) / 2c, whose error is of order c^2 while no kink is crossed. */
static void obeys_the_laws(bool normalise, double dropout)
{
    static double theta[SMALL], at[SMALL], v[SMALL], u[SMALL], g[SMALL], hv[SMALL], hu[SMALL], ga[SMALL], gb[SMALL];
    psgd_graph *graph = small_size(normalise, dropout, theta);
    uint64_t random = 17;
    double loss, a, b, c = 1e-7;
    for (int i = 0; i < SMALL; i++) {
        v[i] = 0.02 * random_normal(&random);
        u[i] = 0.02 * random_normal(&random);
    }
    assert_ok(psgd_graph_hessian(graph, theta, u, g, hu, &loss));
    assert_ok(psgd_graph_hessian(graph, theta, v, g, hv, &loss));
    moved(theta, c, v, at);
    assert_ok(psgd_graph_gradient(graph, at, ga, &a));
    moved(theta, -c, v, at);
    assert_ok(psgd_graph_gradient(graph, at, gb, &b));
    double along = dot(g, v);
    assert_true(fabs((a - b) / (2 * c) - along) < 1e-5 * (fabs(along) + 1e-3));
    double error = 0, size = dot(hv, hv);
    for (int i = 0; i < SMALL; i++) {
        double d = (ga[i] - gb[i]) / (2 * c) - hv[i];
        error += d * d;
    }
    assert_true(sqrt(error / size) < 1e-4);
    double uhv = dot(u, hv), vhu = dot(v, hu);
    assert_true(fabs(uhv - vhu) < 1e-11 * sqrt(dot(u, u) * size));
    psgd_graph_free(graph);
}

static void small_size_obeys_the_laws(void **state)
{
    (void)state;
    obeys_the_laws(false, 0.5);
    obeys_the_laws(true, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_size_has_the_matrices_of_the_paper),
        cmocka_unit_test(starts_as_the_paper_says),
        cmocka_unit_test(small_size_obeys_the_laws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
