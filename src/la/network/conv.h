/* Two-dimensional convolution of [c, h, w, n] with matrices [out, kh kw c + 1], columns in the order (row, column,
 * channel, bias). */
#ifndef PSGD_LA_NETWORK_CONV_H
#define PSGD_LA_NETWORK_CONV_H

#include <stdbool.h>

#include "la/view.h"

#define la_conv             PSGD_TYPED(la_conv)
#define la_conv_term        PSGD_TYPED(la_conv_term)
#define la_conv_work        PSGD_TYPED(psgd__la_conv_work)
#define la_conv_winograd    PSGD_TYPED(psgd__la_conv_winograd)
#define la_conv_forward     PSGD_TYPED(psgd__la_conv_forward)
#define la_conv_back        PSGD_TYPED(psgd__la_conv_back)
#define la_winograd_fits    PSGD_TYPED(psgd__la_winograd_fits)
#define la_winograd_work    PSGD_TYPED(psgd__la_winograd_work)
#define la_winograd_forward PSGD_TYPED(psgd__la_winograd_forward)
#define la_winograd_back    PSGD_TYPED(psgd__la_winograd_back)

typedef struct la_conv {
    int64_t c, h, w, n, out, kh, kw, stride, padding, oh, ow;
} la_conv;

/* One product of a sum, of which there are at most two: a value or gradient is one product, a tangent two. */
typedef struct la_conv_term {
    const real *W, *x, *dy;
} la_conv_term;

bool la_conv_winograd(const la_conv *s); /* the three calls below are those of Winograd */

/* Elements that the calls below need in work. */
int64_t la_conv_work(const la_conv *s);

/* y <- the sum of W * x over count terms, with the bias of the first W where wanted. */
void la_conv_forward(const la_conv *s, int count, const la_conv_term *term, bool bias, real *y, real *work);

/* dx <- [dx +] the sum of W' * dy over the terms with a W; dW <- [dW +] the sum of dy x' over those with an x, the
 * bias from the first dy. dx or dW may be NULL: it is not wanted. */
void la_conv_back(const la_conv *s, int count, const la_conv_term *term, bool add_x, real *dx, bool add_W, real *dW,
                  real *work);

/* The same by Winograd: stride 1, windows of 3 x 3 or 5 x 5. */
bool la_winograd_fits(const la_conv *s);
int64_t la_winograd_work(const la_conv *s);
void la_winograd_forward(const la_conv *s, int count, const la_conv_term *term, bool bias, real *y, real *work);
void la_winograd_back(const la_conv *s, int count, const la_conv_term *term, bool add_x, real *dx, bool add_W, real *dW,
                      real *work);

#endif
