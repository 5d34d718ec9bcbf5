/* The matrices of a run to and from a safetensors file. */
#include "data/format/safetensors.h"
#include "train/trainer.h"

static int list_matrices(const trainer *self, named_matrix matrices[64])
{
    for (int i = 0; i < self->tensors; i++) {
        const int64_t *shape = psgd_graph_parameter_shape(self->full.graph, i);
        matrices[i] = (named_matrix){psgd_graph_parameter_name(self->full.graph, i), shape[0], shape[1],
                                     self->theta_list[i]};
    }
    return self->tensors;
}

psgd_status psgd__trainer_save_weights(const trainer *self, const char *path)
{
    named_matrix matrices[64];
    int count = list_matrices(self, matrices);
    return psgd__safetensors_write(self->context, path, self->dtype, count, matrices);
}

psgd_status psgd__trainer_load_weights(trainer *self, const char *path)
{
    named_matrix matrices[64];
    int count = list_matrices(self, matrices);
    return psgd__safetensors_read(self->context, path, self->dtype, count, matrices);
}
