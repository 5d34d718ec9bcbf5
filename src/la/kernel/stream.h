/* Stores that do not read what they overwrite: for results that are larger than the caches. */
#ifndef PSGD_LA_KERNEL_STREAM_H
#define PSGD_LA_KERNEL_STREAM_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

enum { STREAM_LINE = 64 };

#if defined(__AVX512F__)
static inline void stream_line(char *to, const char *from)
{
    _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
}
#elif defined(__AVX2__)
static inline void stream_line(char *to, const char *from)
{
    for (int i = 0; i < STREAM_LINE; i += 32) {
        _mm256_stream_si256((void *)(to + i), _mm256_loadu_si256((const void *)(from + i)));
    }
}
#elif defined(__SSE2__)
static inline void stream_line(char *to, const char *from)
{
    for (int i = 0; i < STREAM_LINE; i += 16) {
        _mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
    }
}
#else
static inline void stream_line(char *to, const char *from)
{
    memcpy(to, from, STREAM_LINE);
}
#endif

/* to <- from, whole lines past the caches. Call stream_done before another thread reads them. */
static inline void stream_copy(void *to, const void *from, int64_t bytes)
{
    char *t = to;
    const char *f = from;
    int64_t head = (STREAM_LINE - (int64_t)((uintptr_t)t % STREAM_LINE)) % STREAM_LINE;
    if (head > bytes) head = bytes;
    memcpy(t, f, (size_t)head);
    int64_t i = head;
    for (; i + STREAM_LINE <= bytes; i += STREAM_LINE) stream_line(t + i, f + i);
    memcpy(t + i, f + i, (size_t)(bytes - i));
}

static inline void stream_done(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
