/* The update of DESIGN.md in plain dense float64, to compare the library with. It shares no code with it: it reads
 * specs by itself, keeps Q as full matrices, and knows every group as a pattern. */
#ifndef PSGD_TESTS_REFERENCE_H
#define PSGD_TESTS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum ref_kind {
    REF_IDENTITY,
    REF_SCALE,
    REF_DIAG,
    REF_TRI,
    REF_TRIL,
    REF_DENSE,
    REF_NORM,  /* last column */
    REF_NORML, /* last row */
    REF_BNORM,
    REF_BNORML,
    REF_XMAT,
    REF_BLOCK, /* [A C; 0 B] */
    REF_BLOCKL /* [A 0; C B] */,
    REF_SUM,
    REF_KRON,
    REF_TILES
} ref_kind;

typedef struct ref_node {
    ref_kind kind;
    int64_t n;      /* -1 while it is open */
    int64_t fibres; /* n-long fibres in one tensor */
    int child_count;
    struct ref_node *child[32];
    double running;   /* of the normaliser second, where this node is a unit */
    const char *text; /* tiles: of the group of a tile, and how many there are */
    bool turned;
    int64_t down, across;
    int64_t order[256]; /* tiles: the entry of the matrix that stands at each place, tile after tile */
} ref_node;

typedef enum ref_norm { REF_MAX, REF_SPECTRAL, REF_SECOND, REF_NONE, REF_AUTO } ref_norm;

typedef enum ref_rule { REF_EQ, REF_QEQ, REF_PRO, REF_QUAD, REF_QEP } ref_rule;

typedef struct ref_options {
    ref_norm norm;
    double step;
    int64_t count;    /* pairs in this update: R is their mean */
    bool exact_dense; /* dense units on one fibre and one pair have the exact spectral norm */
    bool unprotected; /* auto: there is a dense or an xmat somewhere, see ref_unprotected */
    bool in_kron;     /* the unit is a factor of a kron, or a part of one */
    ref_rule rule;
    /* About ||M||_2 of a dense unit, for second and for rotations; skew: M is skew. NULL: exactly that. */
    double (*estimate)(void *data, const ref_node *node, int unit, bool skew, const double *M);
    void *data;
    int unit; /* of the next step: 0 before an update */
} ref_options;

/* The tree of a valid spec on a tensor of this shape, t pushed inward. */
ref_node *ref_parse(const char *spec, int ndim, const int64_t *shape);
void ref_free(ref_node *node);
bool ref_unprotected(const ref_node *node);

/* Rows of X (n x k) in the order of the tiles, or back; and of a matrix n x n, rows and columns. Free it. */
double *ref_tile_rows(const ref_node *tiles, const double *X, int64_t k);
double *ref_tile_matrix(const ref_node *tiles, const double *Q, bool back);

/* E such that the update is Q <- E Q. A is n x a_count and B n x b_count, row-major: the images of all h and all v. */
void ref_step(ref_node *node, const double *A, int64_t a_count, const double *B, int64_t b_count, ref_options *options,
              double *E);

/* The same for factor i of a kron alone. */
void ref_factor_step(ref_node *kron, int i, const double *A, int64_t a_count, const double *B, int64_t b_count,
                     ref_options *options, double *E);

/* reference_rules.c: after <- what Q becomes by the rule. A and B are the images that it starts from: Qh and Q^-T v for
 * eq, Ph and v for the others. Factors of a kron below a sum are told from one another up to scale. */
void ref_move(ref_node *node, const double *Q, const double *A, int64_t a_count, const double *B, int64_t b_count,
              ref_options *options, double *after);

/* What units and krons are made of: cR, and the mode-i fibres of the columns of X (n x k), n_i x (k n / n_i). */
void ref_unit_step(ref_node *node, const double *A, int64_t a_count, const double *B, int64_t b_count,
                   ref_options *options, double *cR);
double *ref_fibres(const ref_node *kron, int i, const double *X, int64_t k);

/* out <- Pi(S), n x n, for anything but a kron. */
void ref_project(const ref_node *node, const double *S, double *out);

/* The largest entry of Q that the group does not allow; in a kron factors count only up to their scale. */
double ref_outside(const ref_node *node, const double *Q);

/* Plain matrices, row-major. */
void ref_multiply(int64_t m, int64_t k, int64_t n, const double *A, const double *B, double *C); /* C <- A B */
void ref_transpose(int64_t m, int64_t n, const double *A, double *T);
bool ref_invert(int64_t n, const double *A, double *inverse);
double ref_spectral_norm(int64_t n, const double *A);
void ref_kronecker(int64_t m, const double *A, int64_t n, const double *B, double *C); /* C <- A (x) B */

/* reference_symmetric.c: symmetric matrices. */
void ref_eigen(int64_t n, const double *A, double *values, double *U); /* A = U diag(values) U', ascending */
void ref_power(int64_t n, const double *A, double power, double *B);   /* B <- A^power, A positive definite */

/* P <- the positive definite solution of P A P = V: V^1/2 (V^1/2 A V^1/2)^-1/2 V^1/2. */
void ref_matching(int64_t n, const double *A, const double *V, double *P);

#endif
