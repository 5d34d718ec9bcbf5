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
    REF_KRON
} ref_kind;

typedef struct ref_node {
    ref_kind kind;
    int64_t n; /* -1 while it is open */
    int child_count;
    struct ref_node *child[32];
    double running; /* of the normaliser second, where this node is a unit */
} ref_node;

typedef enum ref_norm { REF_MAX, REF_SPECTRAL, REF_SECOND, REF_NONE } ref_norm;

typedef struct ref_options {
    ref_norm norm;
    double step;
    int64_t count;    /* pairs in this update: R is their mean */
    bool exact_dense; /* dense units on one fibre and one pair have the exact spectral norm */
} ref_options;

/* The tree of a valid spec on a tensor of this shape, t pushed inward. */
ref_node *ref_parse(const char *spec, int ndim, const int64_t *shape);
void ref_free(ref_node *node);

/* E such that the update is Q <- E Q. A is n x a_count and B n x b_count, row-major: the images of all h and all v. */
void ref_step(ref_node *node, const double *A, int64_t a_count, const double *B, int64_t b_count,
              const ref_options *options, double *E);

/* The same for factor i of a kron alone. */
void ref_factor_step(ref_node *kron, int i, const double *A, int64_t a_count, const double *B, int64_t b_count,
                     const ref_options *options, double *E);

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

#endif
