/* What psgd_graph_watch hands on. */
#ifndef PSGD_GRAPH_OP_WATCHED_ROWS_H
#define PSGD_GRAPH_OP_WATCHED_ROWS_H

#include <psgd/graph.h>

/* Rows of inputs and of output gradients into the two arrays, as psgd_graph_watch says. Returns how many rows there
 * are, 0 for an op that has none; both arrays may be NULL to ask for that alone. */
int64_t psgd__graph_rows_f32(const psgd_op *op, const psgd_op_call *call, void *x_rows, void *d_rows);
int64_t psgd__graph_rows_f64(const psgd_op *op, const psgd_op_call *call, void *x_rows, void *d_rows);

#endif
