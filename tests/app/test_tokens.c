/* Text as word numbers, and the language with a known entropy. */
#include "support.h"

#include <unistd.h>

#include "data/text/corpus.h"
#include "data/text/markov.h"
#include "data/text/tokens.h"

static const char *const path = "tokens-test.txt";

static void write_bytes(const char *bytes, size_t count)
{
    FILE *file = fopen(path, "w");
    fwrite(bytes, 1, count, file);
    fclose(file);
}

static int remove_text(void **state)
{
    (void)state;
    return unlink(path);
}

static void words_are_numbered_as_they_appear_and_lines_end(void **state)
{
    (void)state;
    const char text[] = " the cat\tsaw\xc2\xa0it \r\n\nthe dog";
    vocabulary words = {0};
    tokens read = {0};
    write_bytes(text, sizeof text - 1);
    assert_ok(psgd__tokens_read(&read, &words, true, path));
    /* the cat saw-it eos | eos | the dog eos */
    static const int32_t expected[] = {0, 1, 2, 3, 3, 0, 4, 3};
    assert_int_equal(read.count, 8);
    assert_memory_equal(read.number, expected, sizeof expected);
    assert_int_equal(words.count, 5);
    assert_string_equal(psgd__vocabulary_word(&words, 2), "saw\xc2\xa0it");
    assert_string_equal(psgd__vocabulary_word(&words, 3), "<eos>");

    write_bytes("the bird\n", 9);
    assert_ok(psgd__tokens_read(&read, &words, false, path));
    assert_int_equal(read.count, 11);
    assert_int_equal(read.number[9], 5);
    assert_string_equal(psgd__vocabulary_word(&words, 5), "<unk>");
    psgd__tokens_free(&read);
    psgd__vocabulary_free(&words);
}

static void a_large_vocabulary_keeps_its_words(void **state)
{
    (void)state;
    vocabulary words = {0};
    char word[16];
    for (int i = 0; i < 20000; i++) {
        int length = snprintf(word, sizeof word, "w%d", i * 7919 % 20000);
        assert_int_equal(psgd__vocabulary_add(&words, word, length), i);
    }
    for (int i = 0; i < 20000; i++) {
        int length = snprintf(word, sizeof word, "w%d", i * 7919 % 20000);
        assert_int_equal(psgd__vocabulary_find(&words, word, length), i);
        assert_string_equal(psgd__vocabulary_word(&words, i), word);
    }
    assert_int_equal(psgd__vocabulary_find(&words, "w", 1), -1);
    int64_t before = words.letters_used;
    psgd__vocabulary_add(&words, "more", 4);
    assert_int_equal(words.letters_used, before + 5);
    psgd__vocabulary_add(&words, "more", 4);
    assert_int_equal(words.count, 20001);
    psgd__vocabulary_free(&words);
}

static void bad_texts_get_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *words;
    } bad[] = {{"", 0, "has no words"},      {" \n\n ", 4, "has no words"},    {"a\nb\xff\n", 5, "byte 2 of line 2"},
               {"\xc0\xaf", 2, "not UTF-8"}, {"\xed\xa0\x80", 3, "not UTF-8"}, {"a \xe2\x82", 4, "byte 3 of line 1"},
               {"a\0b\n", 4, "not UTF-8"},   {"\xf4\x90\x80\x80", 4, "UTF-8"}, {"\x80", 1, "not UTF-8"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vocabulary words = {0};
        tokens read = {0};
        write_bytes(bad[i].bytes, bad[i].count);
        assert_fails(psgd__tokens_read(&read, &words, true, path), PSGD_ERR_FORMAT, bad[i].words);
        assert_int_equal(read.count, 0);
        psgd__tokens_free(&read);
        psgd__vocabulary_free(&words);
    }
    vocabulary words = {0};
    tokens read = {0};
    assert_fails(psgd__tokens_read(&read, &words, true, "no-such-text"), PSGD_ERR_IO, "no-such-text");
}

/* 50 characters: 45 to learn, 2 for validation, 3 for the test, in which one is new. */
static void characters_are_split_by_tenths(void **state)
{
    (void)state;
    const char text[] = "abcabcabca\nbcabcabcab\xc3\xa9"
                        "cabcabcabcabcabcabcabcabc\n?a";
    corpus made;
    write_bytes(text, sizeof text - 1);
    assert_ok(psgd__corpus_open(NULL, "chars:tokens-test.txt", &made));
    assert_int_equal(made.text[TEXT_TRAIN].count, 45);
    assert_int_equal(made.text[TEXT_VALID].count, 2);
    assert_int_equal(made.text[TEXT_TEST].count, 3);
    assert_int_equal(made.words.count, 6); /* a b c newline e-acute, and the unknown one */
    assert_string_equal(psgd__vocabulary_word(&made.words, 3), "\n");
    assert_string_equal(psgd__vocabulary_word(&made.words, 4), "\xc3\xa9");
    static const int32_t test[] = {3, 5, 0};
    assert_memory_equal(made.text[TEXT_TEST].number, test, sizeof test);
    psgd__corpus_free(&made);
    write_bytes("short", 5);
    assert_fails(psgd__corpus_open(NULL, "chars:tokens-test.txt", &made), PSGD_ERR_FORMAT, "at least 40");
    write_bytes("caf\xe9", 4);
    assert_fails(psgd__corpus_open(NULL, "chars:tokens-test.txt", &made), PSGD_ERR_FORMAT, "byte 4");
}

static void wikitext_has_the_counts_that_its_readme_tells(void **state)
{
    (void)state;
    const char *data = getenv("PSGD_DATA");
    char name[512];
    vocabulary words = {0};
    tokens read[3] = {{0}};
    static const char *const splits[] = {"train", "valid", "test"};
    static const int64_t counts[] = {2088628, 217646, 245569};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/wikitext-2/%s.txt", data ? data : PSGD_SOURCE_DIR "/../shared/data", splits[i]);
        if (access(name, R_OK) != 0) {
            print_message("no Wikitext-2 at %s\n", name);
            skip();
        }
        assert_ok(psgd__tokens_read(&read[i], &words, i == 0, name));
        assert_int_equal(read[i].count, counts[i]);
        assert_int_equal(words.count, 33278);
        psgd__tokens_free(&read[i]);
    }
    psgd__vocabulary_free(&words);
}

/* Two words, one follower each: no surprise. Then a chain whose mean surprise is measured. */
static void the_entropy_is_the_mean_surprise(void **state)
{
    (void)state;
    markov chain;
    assert_ok(psgd__markov_create(NULL, 2, 1, 1, &chain));
    assert_true(chain.entropy == 0 && chain.next[0] == 1 && chain.next[1] == 0);
    psgd__markov_free(&chain);

    enum { COUNT = 400000 };
    tokens text = {0};
    vocabulary words = {0};
    assert_ok(psgd__markov_create(NULL, 200, 8, 5, &chain));
    assert_ok(psgd__markov_draw(&chain, 3, COUNT, &text));
    double surprise = 0;
    for (int64_t t = 1; t < text.count; t++) {
        const int32_t *next = chain.next + text.number[t - 1] * chain.followers;
        int i = 0;
        while (next[i] != text.number[t]) i++;
        surprise -= log(chain.probability[text.number[t - 1] * chain.followers + i]);
    }
    assert_true(chain.entropy > 0.5 && chain.entropy < log(8));
    /* The standard deviation of one surprise is near 1, so five standard errors are 5 / sqrt(COUNT). */
    assert_true(fabs(surprise / (COUNT - 1) - chain.entropy) < 5 / sqrt(COUNT));

    tokens again = {0}, other = {0};
    assert_ok(psgd__markov_draw(&chain, 3, 1000, &again));
    assert_ok(psgd__markov_draw(&chain, 4, 1000, &other));
    assert_memory_equal(again.number, text.number, 1000 * sizeof *again.number);
    assert_memory_not_equal(other.number, text.number, 1000 * sizeof *again.number);
    assert_ok(psgd__markov_words(&chain, &words));
    assert_int_equal(words.count, 200);
    psgd__tokens_free(&text);
    psgd__tokens_free(&again);
    psgd__tokens_free(&other);
    psgd__vocabulary_free(&words);
    psgd__markov_free(&chain);
    assert_fails(psgd__markov_create(NULL, 10, 6, 1, &chain), PSGD_ERR_ARGUMENT, "1 to 5 followers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_numbered_as_they_appear_and_lines_end),
        cmocka_unit_test(a_large_vocabulary_keeps_its_words),
        cmocka_unit_test(bad_texts_get_a_sentence),
        cmocka_unit_test(characters_are_split_by_tenths),
        cmocka_unit_test(wikitext_has_the_counts_that_its_readme_tells),
        cmocka_unit_test(the_entropy_is_the_mean_surprise),
    };
    return cmocka_run_group_tests(tests, NULL, remove_text);
}
