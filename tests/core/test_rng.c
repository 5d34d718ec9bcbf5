/* Random words: the published answers of Philox4x32-10, and which word of which block an entry of a stream is. */
#include "support.h"

#include "core/philox.h"
#include "core/rng.h"

#include <math.h>

/* From the file kat_vectors of Random123. */
static void philox_gives_the_published_answers(void **state)
{
    (void)state;
    static const struct {
        philox_block counter;
        uint32_t key[2];
        philox_block answer;
    } known[] = {
        {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         {0xffffffff, 0xffffffff},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {0xa4093822, 0x299f31d0},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        philox_block made = philox4x32_10(known[i].counter, known[i].key[0], known[i].key[1]);
        assert_memory_equal(&made, &known[i].answer, sizeof made);
    }
}

static void entries_are_the_words_of_their_blocks(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int i = 0; i < 1000; i++) {
        rng_stream s = {{(uint32_t)next_random(&random), (uint32_t)next_random(&random)},
                        {(uint32_t)next_random(&random), (uint32_t)next_random(&random)}};
        uint64_t tile = next_random(&random) >> 8, lane = next_random(&random) % RNG_LANES;
        uint64_t block = tile * RNG_LANES + lane;
        philox_block counter = {{(uint32_t)block, (uint32_t)(block >> 32), s.high[0], s.high[1]}};
        philox_block want = philox4x32_10(counter, s.key[0], s.key[1]);
        uint32_t words[4 * RNG_LANES];
        psgd__rng_tile(&s, tile, words);
        for (uint64_t j = 0; j < 4; j++) {
            assert_int_equal(psgd__rng_bits(&s, (tile * 4 + j) * RNG_LANES + lane), want.word[j]);
            assert_int_equal(words[j * RNG_LANES + lane], want.word[j]);
        }
    }
}

/* At any chance, at the number itself and its neighbours, and at the ends of the 2^-32 that its upper half leaves. */
static void a_chance_is_a_uniform_number_below_it(void **state)
{
    (void)state;
    uint64_t random = 11;
    for (uint64_t i = 0; i < 1000; i++) {
        rng_stream s = psgd__rng_stream(next_random(&random), RNG_SHUFFLE, i, next_random(&random));
        double u = psgd__rng_uniform(&s, i), low = floor(u * 0x1p32) * 0x1p-32, high = low + 0x1p-32;
        double chances[] = {0, 0.03, 0.5, 1, u, nextafter(u, 0), nextafter(u, 1), low, high};
        for (size_t k = 0; k < sizeof chances / sizeof chances[0]; k++) {
            assert_int_equal(psgd__rng_chance(&s, i, chances[k]), u < chances[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(entries_are_the_words_of_their_blocks),
        cmocka_unit_test(a_chance_is_a_uniform_number_below_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
