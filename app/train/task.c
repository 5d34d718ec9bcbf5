#include "train/task.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

psgd_status psgd__task_graph(const task *self, int64_t n, bool penalised, bool row_gradients, train_graph *to)
{
    if (n == 0) return PSGD_OK;
    const train_config *config = self->config;
    model_shape shape = self->shape;
    model_settings settings = config->model;
    settings.row_gradients = row_gradients;
    if (!penalised) settings.l2 = 0;
    shape.n = to->n = n;
    return psgd__model_graph(config->context, config->kind, config->dtype, &shape, &settings, &to->graph, &to->nodes);
}

void psgd__task_share_state(const task *self, const train_graph *from, const train_graph *to)
{
    void *source, *target;
    if (!self->carries || !to->graph || to->graph == from->graph) return;
    size_t element = psgd_dtype_size(self->config->dtype), n = (size_t)from->n, m = (size_t)to->n;
    size_t size = (size_t)psgd_graph_state(from->graph, &source), own = (size_t)psgd_graph_state(to->graph, &target);
    if (size == own) {
        memcpy(target, source, size * element);
        return;
    }
    /* States are [features, samples]. */
    for (size_t i = 0; i < size / n; i++) {
        memcpy((char *)target + i * m * element, (char *)source + i * n * element, m * element);
    }
}

void psgd__task_fact(task *self, const char *name, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    char *to = self->fact[self->fact_count];
    vsnprintf(to, sizeof self->fact[0], format, values);
    va_end(values);
    self->facts[self->fact_count++] = (metrics_setting){name, to};
}
