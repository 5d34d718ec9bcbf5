/* Normal deviates into an array, by any number of threads. */
#ifndef PSGD_LA_ARRAY_NORMAL_H
#define PSGD_LA_ARRAY_NORMAL_H

#include "core/dtype.h"
#include "core/rng.h"

void psgd__la_normal_f32(const rng_stream *stream, int64_t first, int64_t count, float *x);
void psgd__la_normal_f64(const rng_stream *stream, int64_t first, int64_t count, double *x);

#define la_normal PSGD_TYPED(psgd__la_normal) /* x <- entries first .. first + count - 1 of the stream */

#endif
