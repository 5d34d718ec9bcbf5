/* The matrices of a run to and from a safetensors file. */
#include "data/format/safetensors.h"
#include "train/trainer.h"

static int list_matrices(const trainer *self, char *slab, named_matrix matrices[TRAIN_MAX_TENSORS])
{
    const psgd_graph *graph = self->task->full.graph;
    size_t element = psgd_dtype_size(self->config.dtype);
    for (int i = 0; i < self->tensors; i++) {
        const int64_t *shape = psgd_graph_parameter_shape(graph, i);
        char *at = slab + (size_t)psgd_graph_parameter_offset(graph, i) * element;
        matrices[i] = (named_matrix){psgd_graph_parameter_name(graph, i), shape[0], shape[1], at};
    }
    return self->tensors;
}

psgd_status psgd__trainer_save_weights(const trainer *self, const char *path)
{
    named_matrix matrices[TRAIN_MAX_TENSORS];
    int count = list_matrices(self, psgd__train_weights(self), matrices);
    return psgd__safetensors_write(self->context, path, self->config.dtype, count, matrices);
}

psgd_status psgd__trainer_load_weights(trainer *self, const char *path)
{
    named_matrix matrices[TRAIN_MAX_TENSORS];
    int count = list_matrices(self, self->theta, matrices);
    return psgd__safetensors_read(self->context, path, self->config.dtype, count, matrices);
}
