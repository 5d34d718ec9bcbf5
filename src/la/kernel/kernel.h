/* The inner loops, on contiguous memory, one thread.
 *
 * Each file of this folder is compiled for every number type and instruction set (portable, AVX2+FMA, AVX-512) from the
 * same plain C; the compiler makes the vectors. la/dispatch.c picks a table at run time, the tests compare all of them
 * with the portable one. */
#ifndef PSGD_LA_KERNEL_KERNEL_H
#define PSGD_LA_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/rng.h"

#define la_kernels PSGD_TYPED(la_kernels)
#define step_rule  PSGD_TYPED(step_rule)

#define la_mix   PSGD_TYPED(la_mix)
#define la_cross PSGD_TYPED(la_cross)
#define la_lstm  PSGD_TYPED(la_lstm)

#ifndef PSGD_ISA
#define PSGD_ISA portable
#endif
#define KERNEL_JOIN_(a, b) a##_##b
#define KERNEL_JOIN(a, b)  KERNEL_JOIN_(a, b)
#define KERNEL(name)       KERNEL_JOIN(PSGD_TYPED(psgd__k_##name), PSGD_ISA)

/* The constants of one step of an optimizer: see la/step.h. */
typedef struct step_rule {
    real keep, rate, l2;
    real decay1, gain1, correct1;
    real correct2, epsilon;
    double decay2, gain2;
    bool ahead;
} step_rule;

/* Y_i <- [Y_i +] bias_i + sum_k A[i a_pitch + a_offset_k] B[b_offset_k ..], i < rows, k < depth, on rows of samples. */
typedef struct la_mix {
    int64_t rows, depth, a_ld, y_ld, bias_ld;
    const int64_t *a_offset, *b_offset;
    const real *bias; /* NULL: none */
    bool add;
} la_mix;

/* R_ij <- R_ij + sum over places (p, q) and samples of A[i a_pitch + p a_outer + q a_inner ..] times
 * B[b_offset_j + p b_outer + q b_inner ..]. */
typedef struct la_cross {
    int64_t rows, columns, outer, inner;
    int64_t a_ld, a_outer, a_inner, b_outer, b_inner, r_ld;
    const int64_t *b_offset;
} la_cross;

/* The maps of la/winograd.c on squares of rows of samples: see la/kernel/points.c. */
typedef enum la_point_map {
    LA_POINT_INPUT,        /* V = B x B' */
    LA_POINT_OUTPUT,       /* y = A'M A */
    LA_POINT_WEIGHTS,      /* U = G w G' */
    LA_POINT_BACK_INPUT,   /* dx = B'dV B */
    LA_POINT_BACK_OUTPUT,  /* dM = A dy A' */
    LA_POINT_BACK_WEIGHTS, /* dw = G'dU G */
} la_point_map;

/* Elementwise functions whose derivatives follow from their value. */
typedef enum la_function { LA_RELU, LA_TANH, LA_SIGMOID } la_function;

/* One hidden unit of an LSTM at one time, on rows of samples. a[4] are the gates i, f, g, o; s = tanh c. t.. are
 * tangents, d.. gradients, td.. tangents of gradients. c0, tc0 are those of the time before. */
typedef struct la_lstm {
    real *a[4], *c, *s, *h, *ta[4], *tc, *ts, *th;
    const real *c0, *tc0;
    real *da[4], *dct, *tda[4]; /* dct: the gradient of c, complete */
    const real *dh, *tdh;
    real *dc, *tdc; /* in: of c, from the time after; out: of c0 */
} la_lstm;

#define la_tri PSGD_TYPED(la_tri)

/* A triangle as it acts: entry (i, k) is T[i row + k column]. The other triangle is not read. */
typedef struct la_tri {
    const real *T;
    int64_t n, row, column;
    bool lower;
} la_tri;

#define la_im2col PSGD_TYPED(la_im2col)

/* C_ij <- [C_ij +] alpha sum_k A[i row + k column] B[k b_pitch + j], k < depth. What is read of a row of B goes on to a
 * whole panel. */
typedef struct la_im2col {
    int64_t rows, columns, depth;
    const real *A, *B;
    int64_t row, column, b_ld, c_ld;
    real alpha;
    bool add;
    real *C;
} la_im2col;

enum { LA_PANEL_BYTES = 128 }; /* what one row of a panel takes at most */

#define la_bordered_pass PSGD_TYPED(la_bordered_pass)
#define la_column_sums   PSGD_TYPED(la_column_sums)

/* Matrices x and y under diagonals on the left, x_row = row and y_row = 1 / row (swapped: the other way round), and on
 * the right: X_j = x_row (p_j x_j + c_j x_last), X_last = x_row p_last x_last; Y_j = y_row r_j y_j, Y_last = y_row
 * (r_last y_last + sum e_j y_j). Before that x <- x + x_damping y or y <- y + y_damping x, the
 * latter only where swapped. */
typedef struct la_bordered_pass {
    int64_t columns;
    const real *x, *y, *row;
    const real *p, *c, *r, *e; /* c and e are NULL where there is no last column */
    real x_damping, y_damping;
    bool plus; /* X^2 + Y^2, else X^2 - Y^2 */
    bool swapped;
} la_bordered_pass;

enum { LA_BORDERED_BLOCK = 12 }; /* rows: a multiple of it is done fastest */

/* Sums along the columns of X^2 and Y^2, and of X_j X_last and Y_j Y_last; [columns] each. few: of the last few rows,
 * zero before and after; in f64 the same memory, and only zero before. */
typedef struct la_column_sums {
    double *diagonal, *side;
    real *few_diagonal, *few_side;
} la_column_sums;

#define la_tiles   PSGD_TYPED(la_tiles)
#define la_weights PSGD_TYPED(la_weights)

/* A panel is a matrix LA_PANEL columns wide, row after row; a matrix in panels is one panel after the other, the last
 * filled up. */
enum { LA_PANEL = 128 / sizeof(real) };

/* Where A_ik is: A[i pitch + k]; A[k pitch + i]; in panels, A[k / LA_PANEL pitch + i LA_PANEL + k % LA_PANEL]. */
typedef enum la_order { LA_BY_ROWS, LA_BY_COLUMNS, LA_BY_PANELS } la_order;

/* C <- [C +] the sum over terms of A B. B is a panel of depth rows, C has columns <= LA_PANEL with c_pitch between its
 * rows. Every number of C is one sum in the order of k, whatever the instruction set. */
typedef struct la_tiles {
    int64_t rows, columns, a_ld, c_ld;
    la_order order;
    int terms;
    int64_t depth[2];
    const real *A[2], *B[2];
    bool add;
    const real *ahead[2]; /* NULL, or what is read next: ahead_count numbers that come from memory meanwhile */
    int64_t ahead_count;
} la_tiles;

/* For panel_weigh_both, one number a column each. */
typedef struct la_weights {
    const real *factor, *mean, *shift;
} la_weights;

#define la_cross_pairs PSGD_TYPED(la_cross_pairs)

/* Pairs of entries i = from, from + 1, .. and size - 1 - i of diag(d) + antidiag(e), and of h and v where needed. */
typedef struct la_cross_pairs {
    int64_t size, from;
    const real *d, *e, *h, *v;
} la_cross_pairs;

typedef struct la_kernels {
    const char *name;
    void (*scale)(int64_t n, real c, real *x);               /* x <- c x */
    void (*mul)(int64_t n, const real *q, real *x);          /* x <- q x, elementwise */
    void (*div)(int64_t n, const real *q, real *x);          /* x <- x / q, elementwise */
    void (*axpy)(int64_t n, real c, const real *x, real *y); /* y <- y + c x */
    double (*dot)(int64_t n, const real *x, const real *y);  /* x'y, summed in double */
    real (*max_abs)(int64_t n, const real *x);               /* max |x|; infinite or NaN where any x is */
    real (*copy_max)(int64_t n, const real *x, real *y);     /* y <- x, returns max |x| as above */
    real (*damp_max)(int64_t n, const real *x, real c, const real *v, real *y);    /* y <- x + c v, max |y| as above */
    void (*add_squares)(int64_t n, double c, const real *x, double *sum);          /* sum <- sum + c x^2, elementwise */
    void (*add_products)(int64_t n, double c, const real *x, real y, double *sum); /* sum <- sum + c y x, elementwise */
    void (*normal)(const rng_stream *stream, int64_t tile, int64_t count, real *x); /* tiles of normal deviates */

    /* Rows of a triangle: dot += q x, y <- y - b q; s <- s + a q, t <- t + b q, q <- q - c (a s - b t). The plural ones
     * take four rows, the last first where the order matters. */
    void (*row_form)(int64_t n, real b, const real *q, const real *x, real *y, double *dot);
    void (*rows_form)(int64_t n, const real *b, const real *const *q, const real *x, real *y, double *dot);
    void (*row_retract)(int64_t n, real c, real a, real b, real *q, real *s, real *t);
    void (*rows_retract)(int64_t n, real c, const real *a, const real *b, real *const *q, real *s, real *t);

    /* Triangles on panels of fibres, entry i of fibre j at P[i panel + j], and outer products of fibres: see block.c.
     * The first two move panels between the caller's memory, entry i of fibre j at x[i entry + j fibre], and P; fibres
     * that are missing are zero in P. */
    int64_t panel, block; /* fibres in a panel; rows that stay in registers */
    void (*panel_load)(int64_t n, int64_t width, const real *x, int64_t entry, int64_t fibre, real *P);
    void (*panel_store)(int64_t n, int64_t width, const real *P, real *x, int64_t entry, int64_t fibre);
    void (*tri_mul)(const la_tri *t, int64_t width, real *P);             /* P <- T P */
    void (*tri_retract)(const la_tri *t, int64_t width, real c, real *P); /* P <- P - c T P */
    void (*tri_solve)(const la_tri *t, int64_t width, real *P);           /* P <- T^-1 P */
    void (*gather)(int64_t count, int64_t n, const real *x, int64_t entry, int64_t fibre, real *X);
    void (*im2col)(const la_im2col *im2col);

    /* Steps of optimizers: la/step.h. */
    void (*step_plain)(int64_t n, const step_rule *r, const real *g, const real *x, real *out);
    void (*step_momentum)(int64_t n, const step_rule *r, const real *g, real *u, const real *x, real *out);
    void (*step_rms)(int64_t n, const step_rule *r, const real *g, real *s, const real *x, real *out);
    void (*step_adam)(int64_t n, const step_rule *r, const real *g, real *u, real *s, const real *x, real *out);

    /* Networks: see the structs above. f' and f'' of an elementwise function y = f(x) are written in terms of y. */
    void (*mix)(const la_mix *mix, int64_t n, const real *A, const real *B, real *Y);
    void (*cross)(const la_cross *cross, int64_t n, const real *A, const real *B, real *R);
    /* to <- [to +] start + the map of from; both are lists of rows of n, the rows of to apart from each other. A row of
     * to may be one of from, whose numbers are lost then. window is 3 or 5. */
    void (*points)(la_point_map kind, int64_t window, int64_t n, const real *const *from, real start, bool add,
                   real *const *to);
    void (*apply)(la_function f, real leak, int64_t n, const real *x, real *y); /* y <- f(x) */
    /* z <- [z +] f' d */
    void (*slope)(la_function f, real leak, int64_t n, const real *y, const real *d, bool add, real *z);
    /* z <- [z +] f' td + (d/dy f') ty d */
    void (*curve)(la_function f, real leak, int64_t n, const real *y, const real *ty, const real *d, const real *td,
                  bool add, real *z);
    void (*exp_minus)(int64_t n, const real *x, const real *m, real *y); /* y <- exp(x - m), elementwise */
    /* Where x is larger than y or a NaN: y <- x, taken <- k. y <- x where taken is k. z <- [z +] d where taken is k,
     * else 0. */
    void (*take_larger)(int64_t n, int32_t k, const real *x, int32_t *taken, real *y);
    void (*take_where)(int64_t n, int32_t k, const int32_t *taken, const real *x, real *y);
    void (*give_where)(int64_t n, int32_t k, const int32_t *taken, const real *d, bool add, real *z);
    double (*sum)(int64_t n, const real *x);                       /* of all x, in double */
    void (*lstm_forward)(int64_t n, const la_lstm *cell);          /* pre-activations in a; c, s, h */
    void (*lstm_tangent)(int64_t n, const la_lstm *cell);          /* the same for ta; tc, ts, th */
    void (*lstm_backward)(int64_t n, const la_lstm *cell);         /* da, dct, dc */
    void (*lstm_tangent_backward)(int64_t n, const la_lstm *cell); /* tda, tdc */

    /* Products with a panel and the softmax of its columns: see the structs above. E and T are aligned to 64 bytes and
     * go past the caches. */
    void (*tiles)(const la_tiles *tiles, real *C);
    /* most_j <- max_i Z_ij, E <- exp(Z_ij - most_j), sum_j <- sum_i E_ij */
    void (*panel_exp)(int64_t rows, const real *Z, real *max, real *sum, real *E);
    /* T <- Z, spread_j <- sum_i E_ij Z_ij */
    void (*panel_spread)(int64_t rows, const real *Z, const real *E, real *spread, real *T);
    void (*panel_weigh)(int64_t rows, const real *factor, const real *E, real *D); /* D <- factor_j E_ij */
    /* the same, and tD <- (factor_j (T_ij - mean_j) + shift_j) E_ij */
    void (*panel_weigh_both)(int64_t rows, const la_weights *by, const real *E, const real *T, real *D, real *tD);

    /* One pass from (v, h) to R and from x to Px: see la/capture.h. stream: results go past the caches, and the caller
     * calls stream_done. */
    real (*diag_fused)(int64_t n, const real *q, const real *h, const real *v, real damping, real sign, real *r,
                       bool stream);
    void (*diag_apply)(int64_t n, real alpha, const real *q, const real *x, bool add, real *y, bool stream);
    void (*retract)(int64_t n, real c, const real *r, real min, real *q); /* q <- q - c r q, at least that */
    double (*row_dot)(int64_t n, const real *x, const real *y); /* x'y in lanes of real: faster than dot, less exact */
    /* Sums of rows from .. to - 1, those along the columns added to what is there. */
    void (*bordered_fused)(const la_bordered_pass *pass, int64_t from, int64_t to, double *row_sums,
                           const la_column_sums *sums);
    /* y <- alpha (d x + t f), added to y if add; x may be y. f may be NULL. Returns f'x. */
    double (*row_apply)(int64_t n, real alpha, const real *d, const real *x, real t, const real *f, bool add, real *y,
                        bool stream);

    /* n pairs under a diagonal and an antidiagonal: R and Q are the diagonal and then the antidiagonal. Without R it is
     * not stored. */
    void (*cross_fused)(int64_t n, const la_cross_pairs *p, real damping, real sign, real *R, bool stream,
                        real *largest, real *spectral);
    void (*cross_renew)(int64_t n, const la_cross_pairs *p, real damping, real c, real *Q); /* both in one, sign -1 */
    void (*cross_retract)(int64_t n, const la_cross_pairs *p, real c, const real *R, real *Q); /* Q <- (I - c R) Q */
    void (*cross_apply)(int64_t n, const la_cross_pairs *p, real alpha, const real *x, bool add, real *y, bool stream);
} la_kernels;

/* Normal deviates that one tile of a stream makes. */
#ifdef PSGD_REAL_F64
enum { LA_NORMAL_TILE = 2 * RNG_LANES };
#else
enum { LA_NORMAL_TILE = 4 * RNG_LANES };
#endif

#endif
