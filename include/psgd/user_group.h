/* A group of your own: fill one table for each dtype, register the pair under a name, use the name in any spec.
 *
 *     psgd_context_add_group(context, "toeplitz", &toeplitz_f32, &toeplitz_f64);
 *     psgd_precond_create(context, "kron(tri,toeplitz)", ...);
 *
 * The library owns the memory: an element of the group is an array of size(n) values of the type of the table, and the
 * functions work on it. They need not check their arguments, and must not allocate; several threads may call them at
 * the same time, on different elements. psgd_group_check tests the laws that a group must satisfy and reports which
 * ones a table breaks.
 *
 * I - cR must be in the group for every R of its Lie algebra and small c, so the algebra is closed under products. */
#ifndef PSGD_USER_GROUP_H
#define PSGD_USER_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include <psgd/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Vectors of n values that the group acts on. Entry i of fibre (o, j), o < outer and j < inner, is
 * x[o * ld + i * inner + j]. */
typedef struct psgd_fibres {
    void *x; /* float * or double *; NULL: no fibres, in project only */
    int64_t n, inner, outer, ld;
} psgd_fibres;

/* One element Q. */
typedef struct psgd_element {
    int64_t n;
    void *q;       /* size(n, data) values */
    void *scratch; /* scratch_size(n, data) values; their contents do not survive a call */
    void *data;    /* from the table */
} psgd_element;

typedef struct psgd_user_group {
    size_t bytes; /* sizeof(psgd_user_group), so that later versions can add to the end */
    void *data;   /* passed to the functions; must outlive the context */

    /* REQUIRED */
    int64_t (*size)(int64_t n, void *data);   /* values that make up Q for dimension n; negative: no such n */
    int64_t (*r_size)(int64_t n, void *data); /* values that make up R, an element of the Lie algebra */
    void (*reset)(const psgd_element *self, double scale);    /* Q <- scale I; what the group fixes stays fixed */
    void (*mul)(const psgd_element *self, psgd_fibres X);     /* X <- Q X    */
    void (*mul_t)(const psgd_element *self, psgd_fibres X);   /* X <- Q' X   */
    void (*solve)(const psgd_element *self, psgd_fibres X);   /* X <- Q^-1 X */
    void (*solve_t)(const psgd_element *self, psgd_fibres X); /* X <- Q^-T X */
    /* R <- the orthogonal projection onto the Lie algebra of sum aa' + sign sum bb' over all fibres a of A and b of B,
     * added to what R holds if accumulate. A or B may have no fibres. */
    void (*project)(const psgd_element *self, psgd_fibres A, psgd_fibres B, int sign, int accumulate, void *R);
    double (*r_max)(const psgd_element *self, const void *R);                /* the largest |entry| of R */
    void (*r_mul)(const psgd_element *self, const void *R, psgd_fibres X);   /* X <- R X  */
    void (*r_mul_t)(const psgd_element *self, const void *R, psgd_fibres X); /* X <- R' X */
    int (*inside)(const psgd_element *self, double c, const void *R);        /* not 0: I - cR is in the group */
    void (*retract)(const psgd_element *self, double c, const void *R);      /* Q <- (I - c R) Q after inside */

    /* OPTIONAL: may be NULL */
    const char *summary, *formula;                       /* for psgd group --list: one line; size in terms of n */
    int64_t (*scratch_size)(int64_t n, void *data);      /* NULL: none */
    void (*rescale)(const psgd_element *self, double c); /* Q <- c Q, c > 0; NULL: that would leave the group */
    void (*retract_right)(const psgd_element *self, double c, const void *R); /* Q <- Q (I - c R); t(...) needs it */
    /* ||R||_2 or an upper bound of it. NULL: a bound is computed from R times the columns of I. */
    double (*r_spectral)(const psgd_element *self, const void *R);
    /* Flops of one mul, for psgd group and the planner. NULL: 2 n^2. */
    double (*flops)(int64_t n, void *data);
} psgd_user_group;

/* The tables are copied. The name is 1 to 40 lower case letters, digits and _, starting with a letter, and not yet
 * known to the context. Either table may be NULL: specs with that name then work for the other dtype only. */
psgd_status psgd_context_add_group(psgd_context *context, const char *name, const psgd_user_group *f32,
                                   const psgd_user_group *f64);

/* A shared object for psgd --load defines a function of this name that takes the psgd_context *, adds its groups to it
 * and returns a psgd_status. */
#define PSGD_LOAD_SYMBOL "psgd_load_groups"

#ifdef __cplusplus
}
#endif
#endif
