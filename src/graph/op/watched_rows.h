/* The rows that psgd_graph_watch passes on. */
#ifndef PSGD_GRAPH_OP_WATCHED_ROWS_H
#define PSGD_GRAPH_OP_WATCHED_ROWS_H

#include <psgd/graph.h>

/* Writes rows of inputs and of output gradients as psgd_graph_watch documents. Returns the number of rows, 0 for an op
 * that has none; both arrays may be NULL to get the number alone. */
int64_t psgd__graph_rows_f32(const psgd_op *op, const psgd_op_call *call, void *x_rows, void *d_rows);
int64_t psgd__graph_rows_f64(const psgd_op *op, const psgd_op_call *call, void *x_rows, void *d_rows);

#endif
