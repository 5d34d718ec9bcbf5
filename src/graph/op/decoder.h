/* The decoder's sizes and memory, and its work on blocks of words: decoder.c has the formulas.
 *
 * Everything with one column per token is stored in panels of LA_PANEL tokens (la/kernel/kernel.h), the last one
 * padded: a block of E is [panels][rows][LA_PANEL]. The padding never reaches a result. */
#ifndef PSGD_GRAPH_OP_DECODER_H
#define PSGD_GRAPH_OP_DECODER_H

#include "graph/op.h"
#include "la/kernel/kernel.h"

#define decoder          PSGD_TYPED(decoder)
#define decoder_pack     PSGD_TYPED(psgd__decoder_pack)
#define decoder_unpack   PSGD_TYPED(psgd__decoder_unpack)
#define decoder_products PSGD_TYPED(psgd__decoder_products)

/* BLOCK is a multiple of the rows of a tile of every instruction set. Words are shared out in PARTS, the last of them
 * small, and each of LANES tasks takes the next one when it is done. */
enum { BLOCK = 252, PARTS = 20, LANES = 8 };

typedef struct decoder {
    int64_t times, features, n, words, tokens, blocks; /* tokens = times n */
    int64_t inner;                                     /* features + 1 */
    int64_t panels, padded;                            /* of tokens; padded = panels LA_PANEL */
    int64_t inner_panels;                              /* of features + 1 */
    real *X, *tX;                                      /* [features + 1, tokens] in panels, the last row 1 or 0 */
    real *Xt, *tXt;                                    /* their transposes in panels */
    real *E, *T;                                       /* blocks [rows, tokens] in panels */
    real *max, *sum;                                   /* [blocks, padded]; sum is f_b from the end of forward on */
    real *spread;                                      /* [blocks, padded] sum over a block of E T */
    real *level, *mean, *at, *t_at; /* [padded]; mean is <p, T>; at and t_at: the labels' logits and tangents */
    real *share;                    /* [padded] 1 / N, or 0 where a token does not count */
    real *Z;                        /* [LANES, BLOCK, LA_PANEL] one panel of logits or their tangents */
    real *D, *tD;                   /* [LANES, BLOCK, padded] */
    real *pull;                     /* [PARTS] dX or tdX in panels */
} decoder;

typedef enum decoder_stage { FORWARD, TANGENT, BACKWARD, TANGENT_BACKWARD } decoder_stage;

/* X and Xt of x [times, features, n]; last is their last row and column. */
void decoder_pack(const decoder *self, const real *x, real last, real *X, real *Xt);

/* dx <- [dx +] the sum of the parts of pull */
void decoder_unpack(const decoder *self, bool add, real *dx);

/* All blocks of words, shared out. FORWARD: E, max, sum and at. TANGENT: T, spread and t_at. BACKWARD: dW and pull.
 * TANGENT_BACKWARD: tdW and pull. */
void decoder_products(const decoder *self, psgd_op_call *call, decoder_stage stage);

#endif
