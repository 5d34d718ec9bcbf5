/* The inner loops, on contiguous memory, one thread.
 *
 * Each file of this folder is compiled for every number type and instruction set (portable, AVX2+FMA, AVX-512) from the
 * same plain C; the compiler makes the vectors. la/dispatch.c picks a table at run time, the tests compare all of them
 * with the portable one. */
#ifndef PSGD_LA_KERNEL_H
#define PSGD_LA_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/rng.h"

#define la_kernels PSGD_TYPED(la_kernels)
#define step_rule  PSGD_TYPED(step_rule)

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

    /* Steps of optimizers: la/step.h. */
    void (*step_plain)(int64_t n, const step_rule *r, const real *g, const real *x, real *out);
    void (*step_momentum)(int64_t n, const step_rule *r, const real *g, real *u, const real *x, real *out);
    void (*step_rms)(int64_t n, const step_rule *r, const real *g, real *s, const real *x, real *out);
    void (*step_adam)(int64_t n, const step_rule *r, const real *g, real *u, real *s, const real *x, real *out);
} la_kernels;

/* Normal deviates that one tile of a stream makes. */
#ifdef PSGD_REAL_F64
enum { LA_NORMAL_TILE = 2 * RNG_LANES };
#else
enum { LA_NORMAL_TILE = 4 * RNG_LANES };
#endif

#endif
