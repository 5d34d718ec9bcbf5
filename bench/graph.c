/* Times of one gradient and of one gradient with Hv: LeNet5 on batch 64, and an LSTM of 30 units over 50 times on batch
 * 128, both in f32. Prints "name gradient-ms hessian-ms", the smallest of all rounds; bench/graph.py runs it beside
 * PyTorch. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *numbers(int64_t count)
{
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; x && i < count; i++) x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return x;
}

static int measure(const char *name, const model_shape *shape, int64_t hidden, int rounds)
{
    const model *kind;
    psgd_graph *graph;
    model_nodes nodes;
    model_settings settings = {.hidden = hidden, .layers = 1};
    if (psgd__model_find(name, &kind) != PSGD_OK ||
        psgd__model_graph(NULL, kind, PSGD_F32, shape, &settings, &graph, &nodes) != PSGD_OK) {
        fprintf(stderr, "%s\n", psgd_last_error());
        return 1;
    }
    int64_t n = psgd_graph_parameters(graph), features = 1;
    for (int i = 0; i < shape->modes; i++) features *= shape->sample[i];
    float *theta = numbers(n), *v = numbers(n), *g = numbers(n), *hv = numbers(n),
          *x = psgd_graph_values(graph, nodes.x);
    float *y = psgd_graph_values(graph, nodes.y);
    double *times[2] = {malloc((size_t)rounds * sizeof(double)), malloc((size_t)rounds * sizeof(double))}, loss;
    if (psgd__model_start(NULL, kind, graph, PSGD_F32, 1, theta) != PSGD_OK) return 1;
    for (int64_t i = 0; i < features * shape->n; i++) x[i] = (float)rand() / (float)RAND_MAX;
    for (int64_t i = 0; i < shape->n; i++) y[i] = (float)(rand() % shape->classes);
    for (int r = -5; r < rounds; r++) {
        double start = seconds();
        psgd_graph_gradient(graph, theta, g, &loss);
        double middle = seconds();
        psgd_graph_hessian(graph, theta, v, g, hv, &loss);
        if (r < 0) continue;
        times[0][r] = 1e3 * (middle - start);
        times[1][r] = 1e3 * (seconds() - middle);
    }
    for (int k = 0; k < 2; k++) qsort(times[k], (size_t)rounds, sizeof(double), ascending);
    printf("%s %.4f %.4f\n", name, times[0][0], times[1][0]);
    fflush(stdout);
    void *all[] = {theta, v, g, hv, times[0], times[1]};
    for (int i = 0; i < 6; i++) free(all[i]);
    psgd_graph_free(graph);
    return 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    model_shape pictures = {.modes = 3, .sample = {1, 28, 28}, .n = 64, .classes = 10};
    model_shape sequences = {.modes = 2, .sample = {50, 2}, .n = 128, .classes = 2};
    return measure("lenet5", &pictures, 1, rounds) || measure("lstm", &sequences, 30, rounds);
}
