/* What a run would be, without running it. */
#include "train/trainer.h"

#include <string.h>

/* What the preconditioners of a run hold and cost. */
typedef struct q_cost {
    int64_t bytes;
    double update, apply; /* flops */
} q_cost;

/* Adds what Q of a tensor costs; size is that of the tensor, or of all of them with a joint preconditioner. */
static int64_t add_cost(const trainer *self, const psgd_precond *precond, const int64_t shape[2], q_cost *to)
{
    int64_t bytes = 0, flat = psgd_precond_size(precond);
    double update = 0, apply = 0;
    bool joint = flat != shape[0] * shape[1];
    (void)psgd_group_cost(self->context, psgd_precond_spec(precond), joint ? 1 : 2, joint ? &flat : shape,
                          self->config.dtype, NULL, &bytes, &update, NULL, &apply, NULL);
    to->bytes += bytes;
    to->update += update;
    to->apply += apply;
    return bytes;
}

static void describe_matrix(const trainer *self, int i, q_cost *all, text *to)
{
    char digits[32];
    const psgd_graph *graph = self->task->full.graph;
    const int64_t *shape = psgd_graph_parameter_shape(graph, i);
    const psgd_precond *precond = psgd_optimizer_precond(self->optimizer, i);
    psgd__text_add(to, "  %-8s [%lld, %lld]", psgd_graph_parameter_name(graph, i), (long long)shape[0],
                   (long long)shape[1]);
    if (psgd_graph_max_rows(graph, i) > 0) psgd__text_add(to, "  row-sparse");
    if (precond) {
        psgd__text_add(to, "  %s:", psgd_precond_spec(precond));
        for (int f = 0; f < psgd_precond_factor_count(precond); f++) {
            psgd__text_add(to, "%s %lld x %lld", f ? "," : "", (long long)psgd_precond_factor_size(precond, f),
                           (long long)psgd_precond_factor_size(precond, f));
        }
        bool again = i > 0 && precond == psgd_optimizer_precond(self->optimizer, i - 1); /* one for all tensors */
        if (again) psgd__text_add(to, ", with those before");
        if (!again) psgd__text_add(to, ", Q %s bytes", psgd__thousands(add_cost(self, precond, shape, all), digits));
    }
    psgd__text_add(to, "\n");
}

/* "name value, name value, ..." from the lines of the settings as given; the model and the data have lines of their
 * own. */
static void describe_settings(const char *settings, text *to)
{
    bool first = true;
    for (const char *at = settings, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        const char *equals = memchr(at, '=', (size_t)(end - at));
        if (!equals || !strncmp(at, "model=", 6) || !strncmp(at, "data=", 5)) continue;
        psgd__text_add(to, "%s%.*s %.*s", first ? "settings   " : ", ", (int)(equals - at), at, (int)(end - equals - 1),
                       equals + 1);
        first = false;
    }
    if (!first) psgd__text_add(to, "\n");
}

/* Of all micro-batches. */
static double step_flops(const task *t, bool hessian)
{
    double sum = 0;
    for (int64_t i = 0; i < t->config->settings.micro_batches; i++) {
        sum += psgd_graph_flops(psgd__task_piece(t, i).full->graph, hessian);
    }
    return sum;
}

psgd_status psgd__trainer_describe(trainer *self, text *to)
{
    char digits[32];
    const task *t = self->task;
    const train_settings *s = &self->config.settings;
    psgd__text_add(to, "model      %s: %s\ndata       %s: ", self->config.kind->name, self->config.kind->summary,
                   s->data);
    t->ops->describe(t, to);
    psgd__text_add(to, "\n");
    if (*t->note) psgd__text_add(to, "           %s\n", t->note);
    describe_settings(self->config.text, to);
    psgd__text_add(to, "optimizer  %s, group %s, lr %g\nmatrices\n", s->optimizer,
                   psgd_optimizer_precond(self->optimizer, 0) ? "as below" : "none",
                   psgd_optimizer_base_rate(self->optimizer));
    q_cost all = {0};
    for (int i = 0; i < self->tensors; i++) describe_matrix(self, i, &all, to);
    psgd__text_add(to, "parameters %s\n", psgd__thousands(self->parameters, digits));
    psgd__text_add(to, "steps      %lld of batch %lld, %lld an epoch\n", (long long)self->total, (long long)s->batch,
                   (long long)t->steps_per_epoch);
    psgd__text_add(to, "memory     %s bytes, about\n", psgd__thousands((int64_t)psgd__trainer_memory(self), digits));
    psgd__text_add(to, "gradient   %.4g flops a step\n", step_flops(t, false));
    psgd__text_add(to, "with Hv    %.4g flops a step\n", step_flops(t, true));
    if (all.bytes > 0) {
        psgd__text_add(to, "Q          %s bytes, %.3g x the parameters\n", psgd__thousands(all.bytes, digits),
                       (double)all.bytes / (double)(self->parameters * (int64_t)psgd_dtype_size(self->config.dtype)));
        psgd__text_add(to, "fit of Q   %.4g flops, P times the gradient %.4g flops\n", all.update, all.apply);
    }
    return to->failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to describe a run") : PSGD_OK;
}
