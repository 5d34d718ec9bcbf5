/* Times of one gradient, of one gradient with Hv and of one complete Newton step on kron(tri,tri):
 * LeNet5 on batch 64, and an LSTM of 30 units over 50 times on batch 128, both in f32. Prints "name gradient-ms
 * hessian-ms step-ms", the smallest of all rounds; bench/graph.py compares it with PyTorch. */
#include "model/model.h"
#include <psgd/psgd.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { KINDS = 3, MAX_TENSORS = 8 };

typedef struct subject {
    psgd_graph *graph;
    psgd_optimizer *optimizer;
    int tensors;
    float *theta, *v, *g, *hv;
    void *theta_list[MAX_TENSORS], *v_list[MAX_TENSORS];
    const void *g_list[MAX_TENSORS], *hv_list[MAX_TENSORS];
} subject;

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static float *array(int64_t count)
{
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; x && i < count; i++) x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return x;
}

static psgd_status open_optimizer(subject *s)
{
    psgd_tensor tensors[MAX_TENSORS];
    psgd_options *options;
    s->tensors = psgd_graph_parameter_count(s->graph);
    for (int i = 0; i < s->tensors; i++) {
        int64_t at = psgd_graph_parameter_offset(s->graph, i);
        tensors[i] = (psgd_tensor){.ndim = 2, .shape = psgd_graph_parameter_shape(s->graph, i)};
        s->theta_list[i] = s->theta + at;
        s->v_list[i] = s->v + at;
        s->g_list[i] = s->g + at;
        s->hv_list[i] = s->hv + at;
    }
    static const char *const settings[][2] = {
        {"group", "kron(tri,tri)"}, {"criterion", "newton"}, {"lr", "0.001"}, {"clip", "0.1"}, {"clip-by", "sqrt"}};
    psgd_status status = psgd_options_create(NULL, &options);
    for (int i = 0; status == PSGD_OK && i < 5; i++) status = psgd_options_set(options, settings[i][0], settings[i][1]);
    if (status == PSGD_OK) {
        status = psgd_optimizer_create(NULL, "psgd", s->tensors, tensors, PSGD_F32, options, &s->optimizer);
    }
    psgd_options_free(options);
    return status;
}

static psgd_status run(subject *s, int kind)
{
    double loss;
    if (kind == 0) return psgd_graph_gradient(s->graph, s->theta, s->g, &loss);
    for (int i = 0; i < s->tensors; i++) psgd_optimizer_draw(s->optimizer, i, s->v_list[i]);
    psgd_status status = psgd_graph_hessian(s->graph, s->theta, s->v, s->g, s->hv, &loss);
    if (kind == 1 || status != PSGD_OK) return status;
    return psgd_optimizer_step(s->optimizer, s->theta_list, s->g_list, (const void *const *)s->v_list, s->hv_list);
}

static psgd_status measure(subject *s, int rounds, double min[KINDS])
{
    for (int r = -5; r < rounds; r++) {
        for (int kind = 0; kind < KINDS; kind++) {
            double start = milliseconds();
            psgd_status status = run(s, kind);
            if (status != PSGD_OK) return status;
            double own = milliseconds() - start;
            if (r == 0 || (r > 0 && own < min[kind])) min[kind] = own;
        }
    }
    return PSGD_OK;
}

static int report(const char *name, const model_shape *shape, int64_t hidden, int rounds)
{
    const model *kind;
    model_nodes nodes;
    model_settings settings = {.hidden = hidden, .layers = 1};
    subject s = {0};
    double min[KINDS] = {0};
    psgd_status status = psgd__model_find(name, &kind);
    if (status == PSGD_OK) status = psgd__model_graph(NULL, kind, PSGD_F32, shape, &settings, &s.graph, &nodes);
    if (status == PSGD_OK) {
        int64_t n = psgd_graph_parameters(s.graph), features = 1;
        for (int i = 0; i < shape->ndim; i++) features *= shape->sample[i];
        s.theta = array(n), s.v = array(n), s.g = array(n), s.hv = array(n);
        float *x = psgd_graph_values(s.graph, nodes.x), *y = psgd_graph_values(s.graph, nodes.y);
        for (int64_t i = 0; i < features * shape->n; i++) x[i] = (float)rand() / (float)RAND_MAX;
        for (int64_t i = 0; i < shape->n; i++) y[i] = (float)(rand() % shape->classes);
        status = psgd__model_start(NULL, kind, s.graph, PSGD_F32, 1, s.theta);
    }
    if (status == PSGD_OK) status = open_optimizer(&s);
    if (status == PSGD_OK) status = measure(&s, rounds, min);
    if (status == PSGD_OK) {
        printf("%s %.4f %.4f %.4f\n", name, min[0], min[1], min[2]);
    } else {
        fprintf(stderr, "%s: %s\n", name, psgd_last_error());
    }
    fflush(stdout);
    void *all[] = {s.theta, s.v, s.g, s.hv};
    for (int i = 0; i < 4; i++) free(all[i]);
    psgd_optimizer_free(s.optimizer);
    psgd_graph_free(s.graph);
    return status != PSGD_OK;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    model_shape images = {.ndim = 3, .sample = {1, 28, 28}, .n = 64, .classes = 10};
    model_shape sequences = {.ndim = 2, .sample = {50, 2}, .n = 128, .classes = 2};
    return report("lenet5", &images, 1, rounds) || report("lstm", &sequences, 30, rounds);
}
