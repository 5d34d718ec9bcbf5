/* Times of AlexNet, full size, float32: one gradient, one gradient with Hv, and whole steps of SGD, Fisher scan and
 * Newton scan. Prints "name seconds" lines, the smallest of all rounds, and the resident memory after a gradient with
 * Hv; bench/alexnet.py compares it with PyTorch.
 *
 *     bench_alexnet [batch [rounds [what]]]      what: gradient, hessian, steps or all */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <psgd/psgd.h>

typedef struct net {
    psgd_graph *graph;
    model_nodes nodes;
    int64_t parameters;
    float *slab[4]; /* theta, gradient, v, hv */
    void *list[4][8];
} net;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static psgd_status build(net *to, int64_t batch)
{
    const model *kind;
    model_shape shape = {.ndim = 3, .sample = {3, 227, 227}, .n = batch, .classes = 1000};
    psgd_status status = psgd__model_find("alexnet", &kind);
    if (status == PSGD_OK) {
        status = psgd__model_graph(NULL, kind, PSGD_F32, &shape, &(model_settings){.l2 = 5e-4, .dropout = 0.5},
                                   &to->graph, &to->nodes);
    }
    if (status != PSGD_OK) return status;
    to->parameters = psgd_graph_parameters(to->graph);
    for (int k = 0; k < 4; k++) {
        to->slab[k] = malloc((size_t)to->parameters * sizeof(float));
        for (int i = 0; i < 8; i++) to->list[k][i] = to->slab[k] + psgd_graph_parameter_offset(to->graph, i);
    }
    float *x = psgd_graph_values(to->graph, to->nodes.x), *y = psgd_graph_values(to->graph, to->nodes.y);
    for (int64_t i = 0; i < 3 * 227 * 227 * batch; i++) x[i] = (float)(rand() % 256 - 128);
    for (int64_t j = 0; j < batch; j++) y[j] = (float)(rand() % 1000);
    for (int64_t i = 0; i < to->parameters; i++) to->slab[2][i] = (float)(rand() % 255 - 127) / 73;
    return psgd__model_start(NULL, kind, to->graph, PSGD_F32, 1, to->slab[0]);
}

/* A complete step of a method, including its gradient or gradient with Hv. */
static psgd_status step(net *self, psgd_optimizer *optimizer)
{
    double loss;
    psgd_status status = PSGD_OK;
    if (psgd_optimizer_wants_product(optimizer)) {
        for (int i = 0; status == PSGD_OK && i < 8; i++) status = psgd_optimizer_draw(optimizer, i, self->list[2][i]);
        if (status == PSGD_OK) {
            status = psgd_graph_hessian(self->graph, self->slab[0], self->slab[2], self->slab[1], self->slab[3], &loss);
        }
    } else {
        status = psgd_graph_gradient(self->graph, self->slab[0], self->slab[1], &loss);
    }
    if (status != PSGD_OK) return status;
    return psgd_optimizer_step(optimizer, self->list[0], (const void *const *)self->list[1],
                               (const void *const *)self->list[2], (const void *const *)self->list[3]);
}

static psgd_status make(net *self, const char *method, const char *criterion, psgd_optimizer **optimizer)
{
    psgd_options *options;
    psgd_tensor tensors[8];
    for (int i = 0; i < 8; i++) {
        tensors[i] = (psgd_tensor){.ndim = 2, .shape = psgd_graph_parameter_shape(self->graph, i)};
    }
    psgd_status status = psgd_options_create(NULL, &options);
    if (status == PSGD_OK) status = psgd_options_set(options, "lr", "1e-7");
    if (status == PSGD_OK && criterion) status = psgd_options_set(options, "criterion", criterion);
    if (status == PSGD_OK && criterion) status = psgd_options_set(options, "group", "scan");
    if (status == PSGD_OK && criterion) status = psgd_options_set(options, "init-scale", "0.1");
    if (status == PSGD_OK) status = psgd_optimizer_create(NULL, method, 8, tensors, PSGD_F32, options, optimizer);
    psgd_options_free(options);
    return status;
}

enum { METHODS = 3 };

/* The methods take turns, so that other load on the machine affects all of them alike. */
static psgd_status measure_steps(net *self, int rounds)
{
    static const char *const names[METHODS] = {"sgd", "fisher-scan", "newton-scan"};
    psgd_optimizer *optimizer[METHODS] = {NULL};
    double best[METHODS] = {1e30, 1e30, 1e30};
    psgd_status status = make(self, "sgd", NULL, &optimizer[0]);
    if (status == PSGD_OK) status = make(self, "psgd", "fisher", &optimizer[1]);
    if (status == PSGD_OK) status = make(self, "psgd", "newton", &optimizer[2]);
    for (int r = -METHODS; status == PSGD_OK && r < METHODS * rounds; r++) {
        int m = (r + METHODS) % METHODS;
        double start = seconds();
        status = step(self, optimizer[m]);
        double took = seconds() - start;
        if (r >= 0 && took < best[m]) best[m] = took;
    }
    for (int m = 0; m < METHODS; m++) {
        printf("%s %.4f\n", names[m], best[m]);
        psgd_optimizer_free(optimizer[m]);
    }
    fflush(stdout);
    return status;
}

static psgd_status measure_graph(net *self, bool hessian, int rounds)
{
    double loss, best = 1e30;
    psgd_status status = PSGD_OK;
    for (int r = -1; status == PSGD_OK && r < rounds; r++) {
        double start = seconds();
        status = hessian ? psgd_graph_hessian(self->graph, self->slab[0], self->slab[2], self->slab[1], self->slab[3],
                                              &loss)
                         : psgd_graph_gradient(self->graph, self->slab[0], self->slab[1], &loss);
        double took = seconds() - start;
        if (r >= 0 && took < best) best = took;
    }
    printf("%s %.4f\n", hessian ? "hessian" : "gradient", best);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    if (hessian) printf("resident-GiB %.3f\n", (double)used.ru_maxrss / (1 << 20));
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    int64_t batch = argc > 1 ? atoi(argv[1]) : 128;
    int rounds = argc > 2 ? atoi(argv[2]) : 2;
    const char *what = argc > 3 ? argv[3] : "all";
    bool all = !strcmp(what, "all");
    net self;
    psgd_status status = build(&self, batch);
    if (status == PSGD_OK && (all || !strcmp(what, "gradient"))) status = measure_graph(&self, false, rounds);
    if (status == PSGD_OK && (all || !strcmp(what, "hessian"))) status = measure_graph(&self, true, rounds);
    if (status == PSGD_OK && (all || !strcmp(what, "steps"))) status = measure_steps(&self, rounds);
    if (status != PSGD_OK) fprintf(stderr, "%s\n", psgd_last_error());
    return status != PSGD_OK;
}
