/* Counter-based random numbers: any entry of any stream, in any order, from its coordinates alone.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). A stream is named by (seed,
 * purpose, tensor, step): one Philox block of those gives the key and the upper half of the counter of the stream. The
 * lower half counts blocks of 128 bits. Numbers come in tiles of RNG_LANES blocks: block l of a tile holds the words
 * (w0, w1, w2, w3), and entry i of the stream of 32-bit words is word i / RNG_LANES % 4 of block
 * i / (4 RNG_LANES) * RNG_LANES + i % RNG_LANES. Vector code then reads and writes without shuffling.
 *
 * A tile makes 4 RNG_LANES normal deviates in f32 and 2 RNG_LANES in f64, by Box and Muller: see la/kernel/normal.c. */
#ifndef PSGD_CORE_RNG_H
#define PSGD_CORE_RNG_H

#include <stdbool.h>
#include <stdint.h>

enum { RNG_LANES = 16 };

/* What a stream is for: streams of different purposes have nothing in common. */
typedef enum rng_purpose {
    RNG_PROBE,    /* v of a fit */
    RNG_INIT,     /* starting parameters */
    RNG_DATA,     /* synthetic data and problems */
    RNG_SHUFFLE,  /* the order of examples */
    RNG_NOISE,    /* noise on inputs, dropout */
    RNG_ESTIMATE, /* the vectors with which norms are estimated */
    RNG_ROUND     /* stochastic rounding */
} rng_purpose;

typedef struct rng_stream {
    uint32_t key[2], high[2];
} rng_stream;

rng_stream psgd__rng_stream(uint64_t seed, rng_purpose purpose, uint64_t tensor, uint64_t step);

/* Entry index of the stream as 32 bits, and as a number in (0, 1) from 52 bits (entries 2 index and 2 index + 1). */
uint32_t psgd__rng_bits(const rng_stream *stream, uint64_t index);
double psgd__rng_uniform(const rng_stream *stream, uint64_t index);

/* psgd__rng_uniform(stream, index) < chance, for half its work nearly always. */
bool psgd__rng_chance(const rng_stream *stream, uint64_t index, double chance);

/* Entries 4 RNG_LANES tile .. 4 RNG_LANES (tile + 1) - 1 as 32 bits each, for the work of one in four. */
void psgd__rng_tile(const rng_stream *stream, uint64_t tile, uint32_t bits[4 * RNG_LANES]);

/* A number below n > 0, without bias, from block index of the stream. */
uint64_t psgd__rng_below(const rng_stream *stream, uint64_t index, uint64_t n);

#endif
