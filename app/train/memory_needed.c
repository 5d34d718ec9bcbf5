/* How much memory a run needs, before it begins. */
#include "graph/graph.h"
#include "optim/optim.h"
#include "train/trainer.h"

double psgd__trainer_need(const trainer *self)
{
    int64_t number = (int64_t)psgd_dtype_size(self->dtype), parameters = psgd_graph_parameters(self->full.graph);
    bool products = self->optimizer->kind->fits && optim_uses_products(self->optimizer);
    double bytes = (double)psgd__graph_touched(self->full.graph, true, products);
    if (self->part.graph) bytes += (double)psgd__graph_touched(self->part.graph, true, true);
    if (self->eval.graph) bytes += (double)psgd__graph_touched(self->eval.graph, false, false);
    if (self->rest.graph) bytes += (double)psgd__graph_touched(self->rest.graph, false, false);
    /* theta and gradient; v and h, and one of each more; the state, and its image in a checkpoint */
    bytes += (double)(parameters * number) * (products ? 2 + 2 * (double)(self->pairs + 1) : 2);
    bytes += 2 * (double)(self->optimizer->state_size * number);
    for (int i = 0; i < self->tensors; i++) {
        const psgd_precond *precond = psgd_optimizer_precond(self->optimizer, i);
        if (precond) bytes += 2 * (double)psgd_precond_state_bytes(precond);
    }
    /* a batch as floats, and two of bytes */
    return bytes + (sizeof(float) + 2) * (double)(self->train->features * self->full.n);
}
