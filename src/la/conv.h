/* Two-dimensional convolution of [c, h, w, n] with matrices [out, kh kw c + 1], columns in the order (row, column,
 * channel, bias). */
#ifndef PSGD_LA_CONV_H
#define PSGD_LA_CONV_H

#include <stdbool.h>

#include "la/view.h"

#define la_conv              PSGD_TYPED(la_conv)
#define la_conv_work         PSGD_TYPED(psgd__la_conv_work)
#define la_conv_forward      PSGD_TYPED(psgd__la_conv_forward)
#define la_conv_back_input   PSGD_TYPED(psgd__la_conv_back_input)
#define la_conv_back_weights PSGD_TYPED(psgd__la_conv_back_weights)

typedef struct la_conv {
    int64_t c, h, w, n, out, kh, kw, stride, padding, oh, ow;
} la_conv;

/* Numbers that the calls below need for themselves in work. */
int64_t la_conv_work(const la_conv *s);

void la_conv_forward(const la_conv *s, const real *W, const real *x, bool bias, bool add, real *y, real *work);
void la_conv_back_input(const la_conv *s, const real *W, const real *dy, bool add, real *dx, real *work);
void la_conv_back_weights(const la_conv *s, const real *x, const real *dy, bool bias, bool add, real *dW, real *work);

#endif
