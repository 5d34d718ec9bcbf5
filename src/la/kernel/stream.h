/* Stores past the caches, which do not read what they overwrite: for results that are larger than those. vec.h has
 * them. */
#ifndef PSGD_LA_KERNEL_STREAM_H
#define PSGD_LA_KERNEL_STREAM_H

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

enum { STREAM_LINE = 64 };

/* Call it before another thread reads what was streamed. */
static inline void stream_done(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
