/* Shared by the simple RNN and the LSTM: a = W [x_t; h_(t-1); 1] over time, with its derivatives, on a chunk of
 * consecutive samples. Samples are independent up to the sums for dW, so each chunk is a task that runs from the
 * first time to the last. */
#ifndef PSGD_GRAPH_OP_RECURRENT_H
#define PSGD_GRAPH_OP_RECURRENT_H

#include "graph/op.h"

#define recurrent               PSGD_TYPED(recurrent)
#define recurrent_check         PSGD_TYPED(psgd__recurrent_check)
#define recurrent_reserve       PSGD_TYPED(psgd__recurrent_reserve)
#define recurrent_chunks        PSGD_TYPED(psgd__recurrent_chunks)
#define recurrent_open          PSGD_TYPED(psgd__recurrent_open)
#define recurrent_mix           PSGD_TYPED(psgd__recurrent_mix)
#define recurrent_mix_transpose PSGD_TYPED(psgd__recurrent_mix_transpose)
#define recurrent_weights       PSGD_TYPED(psgd__recurrent_weights)

enum { RECURRENT_WIDEST = 4096 }; /* rows and columns of W in the small kernels */

typedef struct recurrent {
    int64_t times, in, hidden, rows, n, ld; /* rows of W, its leading dimension */
    int64_t from, count;                    /* this chunk of samples */
    bool large;                             /* one chunk, products by BLAS */
    int64_t plain[RECURRENT_WIDEST];        /* i */
    int64_t lds[RECURRENT_WIDEST];          /* i n, rows of samples */
    int64_t columns[RECURRENT_WIDEST];      /* i ld, a column of W */
} recurrent;

/* rows_each rows of W for each hidden unit. */
psgd_status recurrent_check(psgd_op_call *call, int64_t rows_each);
void recurrent_reserve(psgd_op_call *call); /* adds what recurrent_weights needs to memory_bytes; call it last */
int64_t recurrent_chunks(const psgd_op_call *call);
void recurrent_open(const psgd_op_call *call, int64_t chunk, recurrent *self);

/* A [rows, n] <- [A +] Wx x + Wh h + bias, the first two where x or h is not NULL; all pointers at the first sample. */
void recurrent_mix(const recurrent *self, const real *W, const real *x, const real *h, bool bias, bool add, real *A);

/* z <- [z +] W'A, the columns of W for x or those for h. */
void recurrent_mix_transpose(const recurrent *self, const real *W, const real *A, bool for_x, bool add, real *z);

/* dW <- [dW +] sum over time of A_t [x_t; h_(t-1); 1]'. x may be NULL (its columns are then left alone unless !add) and
 * so may first, the state before the first time, for zero. bias: the last column too. */
void recurrent_weights(const psgd_op_call *call, int64_t rows, const real *A, const real *x, const real *h,
                       const real *first, bool bias, bool add, real *dW);

#endif
