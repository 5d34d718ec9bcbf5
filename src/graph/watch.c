/* Watchers: the backward pass shows them inputs and output gradients of affine maps and convolutions. */
#include "graph/graph.h"
#include "graph/ops.h"

/* The index of the parameter that is the op's matrix, or -1. */
static int matrix_of(const psgd_graph *self, const graph_node *node)
{
    return node->op && node->used && node->call.input_count > 1 ? self->nodes[node->input[1]].parameter : -1;
}

psgd_status psgd_graph_watch(psgd_graph *self, psgd_graph_watcher watcher, void *data)
{
    if (!self || !self->finished) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_graph_watch needs a finished graph");
    int64_t inputs = 0, gradients = 0, total;
    for (int i = 0; watcher && i < self->count; i++) {
        const graph_node *node = &self->nodes[i];
        if (matrix_of(self, node) < 0) continue;
        int64_t rows = PSGD_PICK(self->dtype, psgd__graph_rows)(node->op, &node->call, NULL, NULL), of_x, of_d;
        const int64_t *shape = node->call.input[1].shape;
        if (!psgd__mul_fits(rows, shape[1], &of_x) || !psgd__mul_fits(rows, shape[0], &of_d)) of_x = of_d = INT64_MAX;
        if (of_x > inputs) inputs = of_x;
        if (of_d > gradients) gradients = of_d;
    }
    bool counted = psgd__add_fits(inputs, gradients, &total);
    void *rows = watcher && counted ? psgd__alloc(self->context, total + 1, psgd_dtype_size(self->dtype)) : NULL;
    if (watcher && !rows) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the rows that a watcher sees");
    psgd__free(self->context, self->rows);
    self->rows = rows;
    self->row_gradients = inputs;
    self->watcher = watcher;
    self->watcher_data = data;
    return PSGD_OK;
}

void psgd__graph_show(psgd_graph *self, const graph_node *node)
{
    int parameter = matrix_of(self, node);
    if (parameter < 0) return;
    char *x_rows = self->rows, *d_rows = x_rows + (size_t)self->row_gradients * psgd_dtype_size(self->dtype);
    int64_t count = PSGD_PICK(self->dtype, psgd__graph_rows)(node->op, &node->call, x_rows, d_rows);
    if (count > 0) self->watcher(self->watcher_data, parameter, count, x_rows, d_rows);
}
