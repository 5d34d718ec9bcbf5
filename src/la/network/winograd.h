/* Winograd convolution: the same calls as conv.h. */
#ifndef PSGD_LA_NETWORK_WINOGRAD_H
#define PSGD_LA_NETWORK_WINOGRAD_H

#include "la/network/conv.h"

#define la_winograd_fits    PSGD_TYPED(psgd__la_winograd_fits)
#define la_winograd_work    PSGD_TYPED(psgd__la_winograd_work)
#define la_winograd_forward PSGD_TYPED(psgd__la_winograd_forward)
#define la_winograd_back    PSGD_TYPED(psgd__la_winograd_back)

bool la_winograd_fits(const la_conv *s); /* stride 1, windows of 3 x 3 or 5 x 5 */
int64_t la_winograd_work(const la_conv *s);
void la_winograd_forward(const la_conv *s, int count, const la_conv_term *term, bool bias, real *y, real *work);
void la_winograd_back(const la_conv *s, int count, const la_conv_term *term, bool add_x, real *dx, bool add_W, real *dW,
                      real *work);

#endif
