/* Times of the paper's language model on Wikitext-2's sizes: 33,278 words, two LSTM layers of 200 units, batch 20, 35
 * time steps, dropout 0.2, in f32, on random words. Prints "name milliseconds" lines, the smallest of all rounds;
 * bench/language.py compares it with PyTorch. With the argument rows: an untied embedding with dense and with
 * row-sparse gradients instead, words with the frequencies of a text (the k-th in proportion to 1 / k), each step and
 * the optimizer's part of it. With the argument processor it measures processor time, for one thread on a machine in
 * use. All kinds of steps take turns within a round, so that other load on the machine affects them alike. */
#include "core/memory.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <psgd/psgd.h>

enum { MATRICES = 4, WORDS = 33278, HIDDEN = 200, TIMES = 35, BATCH = 20 };

typedef struct bench {
    psgd_graph *graph;
    model_nodes nodes;
    float *theta, *g, *v, *hv;
    int count; /* of matrices */
    bool by_rows;
} bench;

typedef struct method {
    const char *name, *method, *criterion, *group;
    int every;
    psgd_optimizer *optimizer;
    double min, own; /* a step; of it the draw of v and the optimizer's step */
} method;

static clockid_t measured_by = CLOCK_MONOTONIC;

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(measured_by, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int failed(psgd_status status)
{
    if (status != PSGD_OK) fprintf(stderr, "%s\n", psgd_last_error());
    return status != PSGD_OK;
}

/* The k-th word with a probability in proportion to 1 / k: k = WORDS^u, about. */
static float frequent_word(void)
{
    return (float)(int)(pow(WORDS, (double)rand() / ((double)RAND_MAX + 1)) - 0.999999);
}

static int open_model(bench *self, bool untied, bool by_rows)
{
    const model *kind = &psgd__model_language;
    model_shape shape = {.ndim = 1, .sample = {TIMES}, .n = BATCH, .classes = WORDS};
    model_settings settings = {
        .hidden = HIDDEN, .layers = 2, .dropout = 0.2, .untied = untied, .row_gradients = by_rows};
    self->by_rows = by_rows;
    if (failed(psgd__model_graph(NULL, kind, PSGD_F32, &shape, &settings, &self->graph, &self->nodes))) return 1;
    int64_t n = psgd_graph_parameters(self->graph);
    float **slab[] = {&self->theta, &self->g, &self->v, &self->hv};
    for (int i = 0; i < 4; i++) {
        *slab[i] = psgd__alloc(NULL, n, sizeof(float)); /* as psgd paper does */
        if (!*slab[i]) return 1;
    }
    if (failed(psgd__model_start(NULL, kind, self->graph, PSGD_F32, 1, self->theta))) return 1;
    self->count = psgd_graph_parameter_count(self->graph);
    float *words = psgd_graph_values(self->graph, self->nodes.x);
    float *labels = psgd_graph_values(self->graph, self->nodes.y);
    for (int i = 0; i < TIMES * BATCH; i++) {
        words[i] = untied ? frequent_word() : (float)(rand() % WORDS);
        labels[i] = untied ? frequent_word() : (float)(rand() % WORDS);
    }
    return 0;
}

static int open_method(const bench *self, method *m)
{
    psgd_tensor tensors[MATRICES];
    psgd_options *options;
    if (failed(psgd_options_create(NULL, &options))) return 1;
    psgd_options_set_number(options, "lr", 1e-6); /* the words stay as unknown as they are at the start */
    psgd_options_set_number(options, "clip", 100);
    if (m->criterion) {
        psgd_options_set(options, "criterion", m->criterion);
        psgd_options_set(options, "group", m->group);
        psgd_options_set_number(options, "damping", 0);
        psgd_options_set_number(options, "update-every", m->every);
    }
    for (int i = 0; i < self->count; i++)
        tensors[i] = (psgd_tensor){.ndim = 2,
                                   .shape = psgd_graph_parameter_shape(self->graph, i),
                                   .rows = psgd_graph_max_rows(self->graph, i)};
    psgd_status status = psgd_optimizer_create(NULL, m->method, self->count, tensors, PSGD_F32, options, &m->optimizer);
    psgd_options_free(options);
    return failed(status);
}

/* One step; adds the time of the optimizer to own. */
static int step(bench *self, psgd_optimizer *optimizer, double *own)
{
    void *theta[MATRICES], *g[MATRICES], *v[MATRICES], *hv[MATRICES];
    const psgd_rows *lists[MATRICES] = {NULL};
    psgd_rows rows;
    double loss, start = milliseconds();
    psgd_status status = PSGD_OK;
    for (int i = 0; i < self->count; i++) {
        int64_t at = psgd_graph_parameter_offset(self->graph, i);
        theta[i] = self->theta + at;
        g[i] = self->g + at;
        v[i] = self->v + at;
        hv[i] = self->hv + at;
    }
    if (self->by_rows) {
        status = psgd_graph_rows(self->graph, 0, &rows);
        lists[0] = &rows;
    }
    bool product = psgd_optimizer_wants_product(optimizer);
    for (int i = 0; product && status == PSGD_OK && i < self->count; i++)
        status = lists[i] ? psgd_optimizer_draw_rows(optimizer, i, lists[i], v[i])
                          : psgd_optimizer_draw(optimizer, i, v[i]);
    *own += milliseconds() - start;
    if (failed(status)) return 1;
    status = product ? psgd_graph_hessian(self->graph, self->theta, self->v, self->g, self->hv, &loss)
                     : psgd_graph_gradient(self->graph, self->theta, self->g, &loss);
    if (failed(status)) return 1;
    psgd_graph_carry(self->graph);
    start = milliseconds();
    status = psgd_optimizer_step_rows(optimizer, theta, lists, (const void *const *)g, (const void *const *)v,
                                      (const void *const *)hv);
    *own += milliseconds() - start;
    return failed(status);
}

/* The mean over the steps between two fits, so that a fit every tenth step counts as a tenth. */
static int time_steps(bench *self, method *m)
{
    double own = 0, start = milliseconds();
    for (int i = 0; i < m->every; i++) {
        if (step(self, m->optimizer, &own)) return 1;
    }
    double took = (milliseconds() - start) / m->every;
    if (m->min == 0 || took < m->min) m->min = took;
    if (m->own == 0 || own / m->every < m->own) m->own = own / m->every;
    return 0;
}

static int time_derivatives(bench *self, double min[2])
{
    for (int k = 0; k < 2; k++) {
        double loss, start = milliseconds();
        psgd_status status = k ? psgd_graph_hessian(self->graph, self->theta, self->v, self->g, self->hv, &loss)
                               : psgd_graph_gradient(self->graph, self->theta, self->g, &loss);
        if (failed(status)) return 1;
        double took = milliseconds() - start;
        if (min[k] == 0 || took < min[k]) min[k] = took;
    }
    return 0;
}

static void close_model(bench *self, method *methods, int count)
{
    float *slabs[] = {self->theta, self->g, self->v, self->hv};
    for (int i = 0; i < 4; i++) psgd__free(NULL, slabs[i]);
    for (int i = 0; i < count; i++) psgd_optimizer_free(methods[i].optimizer);
    psgd_graph_free(self->graph);
}

static int measure(int rounds)
{
    bench self = {0};
    method methods[] = {{.name = "sgd", .method = "sgd", .every = 1},
                        {"fisher-scan", "psgd", "fisher", "scan", .every = 1},
                        {"newton-scan", "psgd", "newton", "scan", .every = 1},
                        {"newton-scan-10", "psgd", "newton", "scan", .every = 10}};
    int count = sizeof methods / sizeof methods[0];
    double min[2] = {0};
    if (open_model(&self, false, false)) return 1;
    for (int i = 0; i < count; i++) {
        if (open_method(&self, &methods[i])) return 1;
    }
    psgd_optimizer_draw(methods[0].optimizer, 0, self.v); /* and the rest of v is 0 */
    for (int r = -1; r < rounds; r++) {
        if (time_derivatives(&self, min)) return 1;
        for (int i = 0; i < count; i++) {
            if (time_steps(&self, &methods[i])) return 1;
        }
    }
    printf("gradient %.3f\nhessian %.3f\n", min[0], min[1]);
    for (int i = 0; i < count; i++) printf("%s %.3f\n", methods[i].name, methods[i].min);
    close_model(&self, methods, count);
    return 0;
}

/* name, then for dense and for row-sparse gradients: a step, and the optimizer's part of it. */
static int measure_rows(int rounds)
{
    enum { COUNT = 4 };
    static const method all[COUNT] = {{.name = "sgd", .method = "sgd", .every = 1},
                                      {.name = "sparse-adam", .method = "sparse-adam", .every = 1},
                                      {"fisher-scan", "psgd", "fisher", "scan", .every = 1},
                                      {"newton-scan", "psgd", "newton", "scan", .every = 1}};
    bench models[2] = {{0}};
    method methods[2][COUNT];
    for (int k = 0; k < 2; k++) {
        srand(1);
        if (open_model(&models[k], true, k == 1)) return 1;
        for (int i = 0; i < COUNT; i++) {
            methods[k][i] = all[i];
            if (open_method(&models[k], &methods[k][i])) return 1;
        }
    }
    for (int r = -1; r < rounds; r++) {
        for (int i = 0; i < 2 * COUNT; i++) {
            if (time_steps(&models[i % 2], &methods[i % 2][i / 2])) return 1;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        printf("%s %.3f %.3f %.3f %.3f\n", all[i].name, methods[0][i].min, methods[1][i].min, methods[0][i].own,
               methods[1][i].own);
    }
    for (int k = 0; k < 2; k++) close_model(&models[k], methods[k], COUNT);
    return 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    bool rows = false;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "processor")) measured_by = CLOCK_PROCESS_CPUTIME_ID;
        rows = rows || !strcmp(argv[i], "rows");
    }
    return rows ? measure_rows(rounds) : measure(rounds);
}
