/* The checksum of every file that we write, and the hash of our tables: FNV-1a over words of 8 bytes, the last one
 * padded with zeros. */
#ifndef PSGD_CORE_CHECKSUM_H
#define PSGD_CORE_CHECKSUM_H

#include <stdint.h>
#include <string.h>

#define CHECKSUM_START UINT64_C(14695981039346656037)

static inline uint64_t psgd__checksum_add(uint64_t sum, const void *data, int64_t bytes)
{
    const char *at = data;
    for (int64_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, at + i, (size_t)(bytes - i < 8 ? bytes - i : 8));
        sum = (sum ^ word) * 1099511628211u;
        sum ^= sum >> 29;
    }
    return sum;
}

#endif
