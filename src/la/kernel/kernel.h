/* The inner loops, on contiguous memory, one thread. kernels.def lists them.
 *
 * Each file of this folder is compiled for every dtype and instruction set (portable, AVX2+FMA, AVX-512) from the same
 * plain C; the compiler vectorizes. la/array/dispatch.c picks a table at run time, the tests compare all of them with
 * the portable one. */
#ifndef PSGD_LA_KERNEL_KERNEL_H
#define PSGD_LA_KERNEL_KERNEL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/rng.h"

#define la_kernels    PSGD_TYPED(la_kernels)
#define step_rule     PSGD_TYPED(step_rule)
#define la_entry_rule PSGD_TYPED(la_entry_rule)

#define la_mix   PSGD_TYPED(la_mix)
#define la_cross PSGD_TYPED(la_cross)
#define la_lstm  PSGD_TYPED(la_lstm)

#define KERNEL_JOIN_(a, b) a##_##b
#define KERNEL_JOIN(a, b)  KERNEL_JOIN_(a, b)

/* The constants of one step of an optimizer: see la/fused/optimizer_step.h. */
typedef struct step_rule {
    real keep, rate, l2;
    real decay1, gain1, correct1;
    real correct2, epsilon;
    double decay2, gain2;
    bool ahead, inside;
} step_rule;

/* One step of a diagonal whose entries are fitted one by one: see la/fused/fused.h. */
typedef struct la_entry_rule {
    real damping, step;
    real floor, ceiling; /* from where on entries with v = 0 do not shrink, those with h + damping v = 0 do not grow */
    real min, max;       /* the same for all others */
} la_entry_rule;

/* What a gradient is divided by: correct2 s + epsilon, or the root of the sum of their squares. inside is the rule's,
 * apart so that a loop knows it beforehand. */
static inline real la_divisor(const step_rule *r, real s, bool inside)
{
    real root = r->correct2 * s;
    if (!inside) return root + r->epsilon;
    return (real)sqrt((double)root * (double)root + (double)r->epsilon * (double)r->epsilon);
}

/* Y_i <- [Y_i +] bias_i + sum_k A[i a_ld + a_offset_k] B[b_offset_k ..], i < rows, k < depth, on rows of samples. */
typedef struct la_mix {
    int64_t rows, depth, a_ld, y_ld, bias_ld;
    const int64_t *a_offset, *b_offset;
    const real *bias; /* NULL: none */
    bool add;
} la_mix;

/* R_ij <- R_ij + sum over places (p, q) and samples of A[i a_ld + p a_outer + q a_inner ..] times
 * B[b_offset_j + p b_outer + q b_inner ..]. */
typedef struct la_cross {
    int64_t rows, columns, outer, inner;
    int64_t a_ld, a_outer, a_inner, b_outer, b_inner, r_ld;
    const int64_t *b_offset;
} la_cross;

/* The maps of la/network/winograd.c on squares of rows of samples: see la/kernel/winograd.c. */
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

enum { LA_PANEL_BYTES = 128 }; /* of one row of a panel, at most */

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

#define la_panel_product PSGD_TYPED(la_panel_product)
#define la_weights       PSGD_TYPED(la_weights)

/* A panel is a matrix LA_PANEL columns wide, row after row; a matrix in panels is one panel after the other, the last
 * filled up. */
enum { LA_PANEL = LA_PANEL_BYTES / sizeof(real) };

/* C <- [C +] alpha sum over terms of A B. A_ik is A[i row + k column]; with a_panel, A is a matrix in panels that far
 * apart, and A_ik is A[k / LA_PANEL a_panel + i LA_PANEL + k % LA_PANEL]. B_kj is B[k b_ld + j]; each row is read up to
 * the end of a panel. Every entry of C is one sum in the order of k, whatever the instruction set. */
typedef struct la_panel_product {
    int64_t rows, columns;
    int terms;
    int64_t depth[2];
    const real *A[2], *B[2];
    int64_t row, column, a_panel, b_ld, c_ld;
    real alpha;
    bool add;
    real *C;
    const real *ahead[2]; /* NULL, or what is read next: ahead_count elements, which are prefetched meanwhile */
    int64_t ahead_count;
} la_panel_product;

/* For panel_weigh_both, one value per column each. */
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
    const char *isa;
    int64_t panel, block; /* fibres in a panel; rows of a product that stay in registers */
#define K(result, name, arguments) result(*name) arguments;
#include "la/kernel/kernels.def"
#undef K
} la_kernels;

#ifdef PSGD_ISA /* the prototypes, in files that are compiled for one instruction set */
#define KERNEL(name)               KERNEL_JOIN(PSGD_TYPED(psgd__k_##name), PSGD_ISA)
#define K(result, name, arguments) result KERNEL(name) arguments;
#include "la/kernel/kernels.def"
#undef K
extern const la_kernels KERNEL(table);
#endif

/* Normal deviates that one tile of a stream makes. */
#ifdef PSGD_REAL_F64
enum { LA_NORMAL_TILE = 2 * RNG_LANES };
#else
enum { LA_NORMAL_TILE = 4 * RNG_LANES };
#endif

#endif
