/* Shared by the simple RNN and the LSTM: the loops over time around their cells, a = W [x_t; h_(t-1); 1] with its
 * derivatives. Samples are independent up to the sums for dW, so a chunk of consecutive samples is a task that runs
 * from the first time to the last. */
#ifndef PSGD_GRAPH_OP_RECURRENT_H
#define PSGD_GRAPH_OP_RECURRENT_H

#include "graph/op.h"

#define recurrent         PSGD_TYPED(recurrent)
#define recurrent_arrays  PSGD_TYPED(recurrent_arrays)
#define recurrent_cell    PSGD_TYPED(recurrent_cell)
#define recurrent_check   PSGD_TYPED(psgd__recurrent_check)
#define recurrent_reserve PSGD_TYPED(psgd__recurrent_reserve)
#define recurrent_run     PSGD_TYPED(psgd__recurrent_run)

enum { RECURRENT_WIDEST = 4096 }; /* rows and columns of W in the small kernels */

typedef struct recurrent {
    int64_t times, in, hidden, rows, n, ld; /* rows of W, its leading dimension */
    int64_t from, count;                    /* this chunk of samples */
    bool large;                             /* one chunk, products by BLAS */
    int64_t plain[RECURRENT_WIDEST];        /* i */
    int64_t lds[RECURRENT_WIDEST];          /* i n, rows of samples */
    int64_t columns[RECURRENT_WIDEST];      /* i ld, a column of W */
} recurrent;

/* What the loops read and write: [times, rows, n], but dh [times, hidden, n] and tdh [hidden, n], of one time. */
typedef struct recurrent_arrays {
    real *a, *ta, *da, *tda, *dh, *tdh;
} recurrent_arrays;

typedef enum recurrent_pass { forward_pass, tangent_pass, backward_pass, tangent_backward_pass } recurrent_pass;

/* The cell at time t: a to the output h, ta to th, dh to da, tdh to tda. */
typedef void recurrent_cell(const psgd_op_call *call, const recurrent *r, int64_t t, recurrent_pass pass);

/* rows_each rows of W for each hidden unit. */
psgd_status recurrent_check(psgd_op_call *call, int64_t rows_each);
void recurrent_reserve(psgd_op_call *call); /* adds what the sums for dW need to memory_bytes; call it last */
void recurrent_run(psgd_op_call *call, recurrent_pass pass, const recurrent_arrays *arrays, recurrent_cell *cell);

#endif
