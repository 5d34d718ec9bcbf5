/* What a run would be, without running it. */
#include "optim/optim.h"
#include "train/trainer.h"

static void describe_matrix(const trainer *self, int i, text *to)
{
    const int64_t *shape = psgd_graph_parameter_shape(self->full.graph, i);
    const psgd_precond *precond = psgd_optimizer_precond(self->optimizer, i);
    psgd__text_add(to, "  %-8s [%lld, %lld]", psgd_graph_parameter_name(self->full.graph, i), (long long)shape[0],
                   (long long)shape[1]);
    if (precond) {
        psgd__text_add(to, "  Q:");
        for (int f = 0; f < psgd_precond_factor_count(precond); f++) {
            psgd__text_add(to, "%s %lld x %lld", f ? "," : "", (long long)psgd_precond_factor_size(precond, f),
                           (long long)psgd_precond_factor_size(precond, f));
        }
    }
    psgd__text_add(to, "\n");
}

psgd_status psgd__trainer_describe(trainer *self, text *to)
{
    char digits[32];
    const train_settings *s = &self->settings;
    psgd__text_add(to, "model      %s: %s\n", self->kind->name, self->kind->summary);
    psgd__text_add(to, "data       %s: %lld training and %lld test samples, %lld classes, samples of [", s->data,
                   (long long)self->train->count, (long long)self->test->count, (long long)self->train->classes);
    for (int i = 0; i < self->train->ndim; i++) {
        psgd__text_add(to, "%s%lld", i ? ", " : "", (long long)self->train->sample[i]);
    }
    psgd__text_add(to, "]\noptimizer  %s, group %s, mu %g\n", s->optimizer,
                   self->optimizer->kind->fits ? "as below" : "none", psgd_optimizer_rate(self->optimizer));
    psgd__text_add(to, "matrices\n");
    for (int i = 0; i < self->tensors; i++) describe_matrix(self, i, to);
    psgd__text_add(to, "parameters %s\n", psgd__thousands(self->parameters, digits));
    psgd__text_add(to, "steps      %lld of batch %lld, %lld an epoch\n", (long long)self->total, (long long)s->batch,
                   (long long)self->steps_per_epoch);
    int64_t bytes = psgd_graph_bytes(self->full.graph) + psgd_graph_bytes(self->part.graph) +
                    psgd_graph_bytes(self->eval.graph) + psgd_graph_bytes(self->rest.graph);
    psgd__text_add(to, "graphs     %s bytes\n", psgd__thousands(bytes, digits));
    psgd__text_add(to, "gradient   %.4g flops a step\n", psgd_graph_flops(self->full.graph, false));
    psgd__text_add(to, "with Hv    %.4g flops a step\n", psgd_graph_flops(self->full.graph, true));
    return to->failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to describe a run") : PSGD_OK;
}
