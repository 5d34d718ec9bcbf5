/* ARCHITECTURE.md says how much stack a thread needs that calls the library. */
#include "support.h"

#include <pthread.h>

enum { STACK = 256 * 1024 };

static void update_and_apply(const char *spec, int64_t rows, int64_t columns)
{
    int64_t n = rows * columns, shape[] = {rows, columns};
    psgd_precond *precond;
    double *v = malloc((size_t)n * sizeof *v), *h = malloc((size_t)n * sizeof *h);
    uint64_t seed = 3;
    assert_true(v && h);
    for (int64_t i = 0; i < n; i++) {
        v[i] = random_normal(&seed);
        h[i] = random_normal(&seed);
    }
    assert_ok(psgd_precond_create(NULL, spec, 2, shape, PSGD_F64, NULL, &precond));
    assert_ok(psgd_precond_update(precond, v, h));
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, v, h));
    psgd_precond_free(precond);
    free(v);
    free(h);
}

/* A convolution of each kind and a product. */
static void run_network(void)
{
    static double theta[40000], v[40000], g[40000], hv[40000];
    double loss;
    psgd_graph *graph;
    uint64_t seed = 4;
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &graph));
    psgd_node x = psgd_graph_input(graph, 4, (int64_t[]){3, 9, 9, 20});
    x = psgd_graph_convolution(graph, x, psgd_graph_parameter(graph, "A", 16, 3 * 9 + 1), 3, 3, 1, 1);
    x = psgd_graph_convolution(graph, x, psgd_graph_parameter(graph, "B", 20, 16 * 9 + 1), 3, 3, 1, 1);
    x = psgd_graph_affine(graph, psgd_graph_tanh(graph, x), psgd_graph_parameter(graph, "C", 10, 20 * 81 + 1));
    assert_ok(psgd_graph_finish(graph, psgd_graph_l2(graph, x, 1)));
    assert_true(psgd_graph_parameters(graph) <= 40000);
    for (int64_t i = 0; i < psgd_graph_parameters(graph); i++) {
        theta[i] = 0.1 * random_normal(&seed);
        v[i] = random_normal(&seed);
    }
    assert_ok(psgd_graph_hessian(graph, theta, v, g, hv, &loss));
    psgd_graph_free(graph);
}

static void *work(void *data)
{
    (void)data;
    assert_ok(psgd_set_threads(1));
    update_and_apply("kron(tri,tril)", 120, 257);
    update_and_apply("kron(dense,dense)", 60, 70);
    update_and_apply("scan", 200, 300);
    run_network();
    return NULL;
}

static void it_is_enough(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* which needs more */
#endif
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    assert_int_equal(pthread_attr_setstacksize(&small, STACK), 0);
    assert_int_equal(pthread_create(&thread, &small, work, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_enough)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
