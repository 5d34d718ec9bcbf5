/* psgd generate: text from a trained language model. */
#include "cli/cli.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/text/tokens.h"
#include "train/train.h"

typedef struct page {
    bool line_started;
} page;

static void say(void *data, const char *word)
{
    page *self = data;
    bool end = !strcmp(word, EOS_WORD);
    if (!end) printf("%s%s", self->line_started ? " " : "", word);
    if (end) putchar('\n');
    self->line_started = !end;
}

static int run(const cli_args *args)
{
    const char *words = cli_value(args, "words"), *seed = cli_value(args, "seed"),
               *heat = cli_value(args, "temperature");
    int64_t count = 100, number = 0;
    double temperature = 1;
    if (args->positional_count != 1)
        return cli_wrong_use("psgd generate needs one RUN, the folder of a language model");
    if (words && !cli_count("words", words, &count)) return EXIT_WRONG_USE;
    if (seed && !cli_count("seed", seed, &number)) return EXIT_WRONG_USE;
    if (heat && !cli_number("temperature", heat, &temperature)) return EXIT_WRONG_USE;
    if (temperature < 0) return cli_wrong_use("--temperature must be 0 or more, not %s", heat);

    page sheet = {0};
    psgd_status status = psgd__generate(NULL, args->positional[0], count, temperature, (uint64_t)number, say, &sheet);
    if (sheet.line_started) putchar('\n');
    return cli_status(status);
}

static const cli_flag flags[] = {
    {"words", "N", "how many words, ends of lines among them [100]"},
    {"temperature", "T", "below 1: more likely words; 0: always the most likely one [1]"},
    {"seed", "N", "another seed, another text [0]"},
    {0},
};

const cli_verb verb_generate = {
    .name = "generate",
    .usage = "psgd generate RUN [--words N] [--temperature T] [--seed N]",
    .summary = "Write text with a language model that psgd train lm or psgd paper wikitext2 has trained",
    .flags = flags,
    .run = run,
};
