#include "core/rng.h"

#include "core/philox.h"

static philox_block block_at(const rng_stream *stream, uint64_t block)
{
    philox_block counter = {{(uint32_t)block, (uint32_t)(block >> 32), stream->high[0], stream->high[1]}};
    return philox4x32_10(counter, stream->key[0], stream->key[1]);
}

/* Tensor and purpose share two words: 56 bits and 8. */
rng_stream psgd__rng_stream(uint64_t seed, rng_purpose purpose, uint64_t tensor, uint64_t step)
{
    uint64_t which = tensor << 8 | (uint64_t)purpose;
    rng_stream name = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                       .high = {(uint32_t)which, (uint32_t)(which >> 32)}};
    philox_block made = block_at(&name, step);
    return (rng_stream){.key = {made.word[0], made.word[1]}, .high = {made.word[2], made.word[3]}};
}

uint32_t psgd__rng_bits(const rng_stream *stream, uint64_t index)
{
    uint64_t tile = index / (4 * RNG_LANES), lane = index % RNG_LANES;
    return block_at(stream, tile * RNG_LANES + lane).word[index / RNG_LANES % 4];
}

void psgd__rng_tile(const rng_stream *stream, uint64_t tile, uint32_t bits[4 * RNG_LANES])
{
    for (int lane = 0; lane < RNG_LANES; lane++) {
        philox_block made = block_at(stream, tile * RNG_LANES + (uint64_t)lane);
        for (int word = 0; word < 4; word++) bits[word * RNG_LANES + lane] = made.word[word];
    }
}

double psgd__rng_uniform(const rng_stream *stream, uint64_t index)
{
    uint64_t bits = (uint64_t)psgd__rng_bits(stream, 2 * index) << 32 | psgd__rng_bits(stream, 2 * index + 1);
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

/* The upper 32 bits are enough unless chance lies between them and the next. */
bool psgd__rng_chance(const rng_stream *stream, uint64_t index, double chance)
{
    double low = (double)psgd__rng_bits(stream, 2 * index) * 0x1p-32;
    if (low + 0x1p-32 <= chance) return true;
    return low < chance && psgd__rng_uniform(stream, index) < chance;
}

/* What lies beyond the largest multiple of n is drawn again, with another upper half of the counter. */
uint64_t psgd__rng_below(const rng_stream *stream, uint64_t index, uint64_t n)
{
    uint64_t reject = (UINT64_MAX % n + 1) % n;
    rng_stream again = *stream;
    for (;;) {
        philox_block made = block_at(&again, index);
        uint64_t bits = (uint64_t)made.word[0] << 32 | made.word[1];
        if (bits <= UINT64_MAX - reject) return bits % n;
        again.high[1]++;
    }
}
