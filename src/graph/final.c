/* Reports to the caller, during the backward pass, which gradients are final. */
#include "graph/graph.h"

/* The op that the backward pass comes to last of those that add to a parameter's gradient; -1: there is none. */
static int last_of(const psgd_graph *self, int parameter)
{
    for (int i = 0; i < self->count; i++) {
        const graph_node *node = &self->nodes[i];
        if (!node->op || !node->used || !node->call.output.live) continue;
        for (int k = 0; k < node->call.input_count; k++) {
            if (self->nodes[node->input[k]].parameter == parameter) return i;
        }
    }
    return -1;
}

psgd_status psgd_graph_on_final(psgd_graph *self, psgd_graph_final final, void *data)
{
    if (!self || !self->finished) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_graph_on_final needs a finished graph");
    for (int i = 0; final && i < self->parameter_count; i++) self->parameters[i].final_after = last_of(self, i);
    self->final = final;
    self->final_data = data;
    return PSGD_OK;
}

psgd_status psgd__graph_tell(psgd_graph *self, int node)
{
    for (int i = 0; self->final && i < self->parameter_count; i++) {
        if (self->parameters[i].final_after == node) PSGD_TRY(self->final(self->final_data, i));
    }
    return PSGD_OK;
}
