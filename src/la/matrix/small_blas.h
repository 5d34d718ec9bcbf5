/* Triangles and symmetric sums by kernels of our own, for sizes up to LA_BLOCK_MAX, where calls of a BLAS would cost
 * more than they save. Threads share fibres, columns or rows of the result, each of which is the same whoever computes
 * it. */
#ifndef PSGD_LA_MATRIX_SMALL_BLAS_H
#define PSGD_LA_MATRIX_SMALL_BLAS_H

#include <stdbool.h>

#include "la/view.h"

#define la_block_op      PSGD_TYPED(la_block_op)
#define la_block_tri     PSGD_TYPED(psgd__la_block_tri)
#define la_block_outer   PSGD_TYPED(psgd__la_block_outer)
#define la_block_product PSGD_TYPED(psgd__la_block_product)
#define la_block_gemm    PSGD_TYPED(psgd__la_block_gemm)
#define la_factors       PSGD_TYPED(la_factors)

enum { LA_BLOCK_MAX = 1024 };

/* The fibres of a view as matrices: entry i of fibre j of one is x[i entry + j fibre], j < each. */
typedef struct fibres {
    int64_t matrices, each, entry, fibre;
} fibres;

static inline fibres fibres_of(const view *X)
{
    return X->inner == 1 ? (fibres){X->blocks, X->outer, 1, X->ld}
                         : (fibres){X->blocks * X->outer, X->inner, X->inner, 1};
}

/* Matrix m of those. */
static inline real *fibres_matrix(const view *X, int64_t m)
{
    return X->inner == 1 ? X->x + (X->levels ? view_block_at(X, m) : 0) : view_matrix(X, m);
}

/* X <- T X, T'X, T^-1 X or T^-T X, or two of them one after the other. */
typedef struct la_block_op {
    view X;
    bool solve;
    int count;
    bool transpose[2];
} la_block_op;

/* Several such with one triangle, none of which reads what another writes. */
void la_block_tri(const real *T, bool lower, int count, const la_block_op *ops);

/* The upper or lower triangle of R <- [R +] AA' + sign BB'; within blocks near the diagonal the other triangle is
 * written as well. B may be empty. */
void la_block_outer(view A, view B, int sign, bool lower, bool add, real *R);

/* Q <- T Q, or with retract Q <- Q - c T Q, for two triangles of side n whose rows are ld apart. */
void la_block_product(int64_t n, int64_t ld, bool lower, bool retract, real c, const real *T, real *Q);

/* op(A) op(B), m x n, inner dimension k, which is at most LA_BLOCK_MAX. */
typedef struct la_factors {
    bool ta, tb;
    int64_t m, n, k;
    const real *A;
    int64_t lda;
    const real *B;
    int64_t ldb;
} la_factors;

/* C <- [C +] alpha op(A) op(B) */
void la_block_gemm(const la_factors *f, real alpha, bool add, real *C, int64_t ldc);

#endif
