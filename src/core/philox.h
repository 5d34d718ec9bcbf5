/* Philox4x32-10: 128 random bits from a counter of 128 bits and a key of 64 (Salmon et al., "Parallel random numbers:
 * as easy as 1, 2, 3", 2011).
 *
 * One round of (c0, c1, c2, c3) with p = 0xD2511F53 c0 and q = 0xCD9E8D57 c2, products of 64 bits, is
 * (hi q ^ c1 ^ k0, lo q, hi p ^ c3 ^ k1, lo p); then k0 and k1 grow by the Weyl constants. Inline and without branches,
 * so that a loop over blocks becomes vector code. */
#ifndef PSGD_CORE_PHILOX_H
#define PSGD_CORE_PHILOX_H

#include <stdint.h>

typedef struct philox_block {
    uint32_t word[4];
} philox_block;

static inline philox_block philox4x32_10(philox_block counter, uint32_t k0, uint32_t k1)
{
    uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)c0 * 0xD2511F53u, q = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(q >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)q;
        c2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (philox_block){{c0, c1, c2, c3}};
}

#endif
