/* The checksum of our files sees every byte, those after the last whole word too. */
#include "support.h"

#include "core/checksum.h"

/* FNV-1a over words of 8 bytes, computed with Python's integers; the script is tests/app/hostile.py. */
static void published_values(void **state)
{
    (void)state;
    assert_true(psgd__checksum_add(CHECKSUM_START, "", 0) == UINT64_C(14695981039346656037));
    assert_true(psgd__checksum_add(CHECKSUM_START, "abcdefgh", 8) == UINT64_C(4114582181881221900));
    assert_true(psgd__checksum_add(CHECKSUM_START, "abcdefghijk", 11) == UINT64_C(5551246267325689344));
}

static void every_bit_counts(void **state)
{
    (void)state;
    unsigned char bytes[24];
    for (int length = 1; length <= 24; length++) {
        for (int i = 0; i < length; i++) bytes[i] = (unsigned char)(31 * i + length);
        uint64_t sum = psgd__checksum_add(CHECKSUM_START, bytes, length);
        for (int bit = 0; bit < 8 * length; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_true(psgd__checksum_add(CHECKSUM_START, bytes, length) != sum);
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_values), cmocka_unit_test(every_bit_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
