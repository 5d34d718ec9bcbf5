/* What the tests share: cmocka in the right order, status checks, a small generator, an allocator that fails on
 * request. */
#ifndef PSGD_TESTS_SUPPORT_H
#define PSGD_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <psgd/psgd.h>

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        psgd_status assert_ok_status = (call);                                                                         \
        if (assert_ok_status != PSGD_OK) {                                                                             \
            print_error("%s: %s\n", psgd_status_text(assert_ok_status), psgd_last_error());                            \
            fail();                                                                                                    \
        }                                                                                                              \
    } while (0)

/* The call fails with this status and its sentence contains these words. */
#define assert_fails(call, status, words)                                                                              \
    do {                                                                                                               \
        assert_int_equal(call, status);                                                                                \
        if (!strstr(psgd_last_error(), words)) {                                                                       \
            print_error("expected '%s' in: %s\n", words, psgd_last_error());                                           \
            fail();                                                                                                    \
        }                                                                                                              \
    } while (0)

/* Under a sanitizer the slowest tests take half of their cases, unless PSGD_LONG_TESTS asks for all of them. */
static inline bool every_case(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return getenv("PSGD_LONG_TESTS");
#else
    return true;
#endif
}

/* xorshift64*: good enough for tests, and the same everywhere. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

static inline int64_t random_below(uint64_t *state, int64_t n)
{
    return (int64_t)(next_random(state) % (uint64_t)n);
}

static inline double random_uniform(uint64_t *state)
{
    return (double)(next_random(state) >> 11) / 9007199254740992.0;
}

static inline double random_normal(uint64_t *state)
{
    double u = 1 - random_uniform(state), w = random_uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * w);
}

/* An allocator that counts what is outstanding and fails from the n-th allocation on; fail_at < 0: never. */
typedef struct counting {
    int64_t made, outstanding, fail_at;
} counting;

static inline void *counting_allocate(void *data, size_t bytes)
{
    counting *c = data;
    if (c->fail_at >= 0 && c->made >= c->fail_at) return NULL;
    c->made++;
    c->outstanding++;
    return malloc(bytes);
}

static inline void counting_release(void *data, void *memory)
{
    ((counting *)data)->outstanding--;
    free(memory);
}

#endif
