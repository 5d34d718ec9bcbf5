#include "train/task.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Piece index of total samples in count pieces. */
static int64_t share_of(int64_t total, int64_t count, int64_t index, int64_t *from)
{
    int64_t each = total / count, longer = total % count;
    *from = index * each + (index < longer ? index : longer);
    return each + (index < longer);
}

task_piece psgd__task_piece(const task *self, int64_t index)
{
    const train_settings *s = &self->config->settings;
    int64_t samples = s->hv_batch > 0 && s->hv_batch < s->batch ? s->hv_batch : s->batch, ignored;
    task_piece p = {.index = index};
    p.n = share_of(s->batch, s->micro_batches, index, &p.from);
    p.hv = share_of(samples, s->micro_batches, index, &ignored);
    p.full = p.n == self->full.n ? &self->full : &self->less;
    p.part = p.hv == self->part.n || !self->part.graph ? &self->part : &self->part_less;
    p.weight = (double)p.n / (double)s->batch;
    p.hv_weight = (double)p.hv / (double)samples;
    return p;
}

void psgd__task_own(const train_config *config, int64_t *first, int64_t *count)
{
    *count = config->settings.micro_batches / psgd_comm_size(config->comm);
    *first = *count * psgd_comm_rank(config->comm);
}

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

static const char *const jpeg_options[] = {"height", "width",          "resize", "subtract-mean", "random-crop",
                                           "mirror", "decode-threads", "cache",  "truth"};
enum { JPEG_OPTIONS = sizeof jpeg_options / sizeof jpeg_options[0] };

bool psgd__task_takes_jpegs(const char *data)
{
    return strncmp(data, "images:", 7) == 0;
}

bool psgd__task_is_of_jpegs(const char *option)
{
    for (int i = 0; i < JPEG_OPTIONS; i++) {
        if (!strcmp(jpeg_options[i], option)) return true;
    }
    return false;
}

const char *psgd__task_jpeg_option(const train_settings *s)
{
    const bool set[JPEG_OPTIONS] = {s->height > 0,         s->width > 0,   s->resize > 0,
                                    s->subtract_mean,      s->random_crop, s->mirror,
                                    s->decode_threads > 0, s->cache,       s->truth};
    for (int i = 0; i < JPEG_OPTIONS; i++) {
        if (set[i]) return jpeg_options[i];
    }
    return NULL;
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

int64_t psgd__task_eval_batches(const task *self, int64_t batches)
{
    int64_t max = self->config->settings.eval_batches;
    return max > 0 && max < batches ? max : batches;
}

void psgd__task_scored(const task *self, int64_t done, int64_t total)
{
    if (self->scored) self->scored(self->scored_data, done, total);
}
