/* Standard normal deviates from a counter-based generator (Philox): the v that the library draws, for callers who
 * compute their own pairs (v, Hv).
 *
 * Entry i of the stream (seed, tensor, step) depends on nothing else: not on the number of threads, the instruction
 * set, or how a stream is split into calls. f32 and f64 have different streams. */
#ifndef PSGD_RANDOM_H
#define PSGD_RANDOM_H

#include <stdint.h>

#include <psgd/dtype.h>
#include <psgd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x <- entries first .. first + count - 1 of the stream (seed, tensor, step). Different streams are independent. */
psgd_status psgd_normal_fill(psgd_dtype dtype, uint64_t seed, uint64_t tensor, uint64_t step, int64_t first,
                             int64_t count, void *x);

/* The same from a stream for the initial values of a tensor, independent of those above. */
psgd_status psgd_normal_init(psgd_dtype dtype, uint64_t seed, uint64_t tensor, int64_t first, int64_t count, void *x);

#ifdef __cplusplus
}
#endif
#endif
