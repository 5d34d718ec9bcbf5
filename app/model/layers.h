/* What the models share. */
#ifndef PSGD_MODEL_LAYERS_H
#define PSGD_MODEL_LAYERS_H

#include "model/model.h"

/* The size of a sample. */
static inline int64_t model_features(const model_shape *shape)
{
    int64_t size = 1;
    for (int i = 0; i < shape->ndim; i++) size *= shape->sample[i];
    return size;
}

/* The input node of samples as they are. */
static inline psgd_node model_input(psgd_graph *g, const model_shape *shape)
{
    int64_t full[PSGD_MAX_DIMS];
    for (int i = 0; i < shape->ndim; i++) full[i] = shape->sample[i];
    full[shape->ndim] = shape->n;
    return psgd_graph_input(g, shape->ndim + 1, full);
}

#endif
