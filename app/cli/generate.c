/* psgd generate: text from a trained language model. */
#include "cli/cli.h"

#include <string.h>

#include "data/text/tokens.h"
#include "train/train.h"

static void say(void *line_started, const char *word, bool joined)
{
    bool *started = line_started, end = !strcmp(word, joined ? "\n" : EOS_WORD);
    if (!end) printf("%s%s", *started && !joined ? " " : "", word);
    if (end) putchar('\n');
    *started = !end;
}

static psgd_status run(const cli_args *args)
{
    int64_t count = 100, seed = 0;
    double temperature = 1;
    bool started = false;
    if (args->positional_count != 1)
        return cli_wrong_use("psgd generate needs one RUN, the folder of a language model");
    PSGD_TRY(cli_count(args, "words", &count));
    PSGD_TRY(cli_count(args, "seed", &seed));
    PSGD_TRY(cli_number(args, "temperature", &temperature));
    if (temperature < 0) {
        return cli_wrong_use("--temperature must be 0 or more, not %s", cli_value(args, "temperature"));
    }
    psgd_status status = psgd__generate(NULL, args->positional[0], count, temperature, (uint64_t)seed, say, &started);
    if (started) putchar('\n');
    return status;
}

static const cli_flag flags[] = {
    {"words", "N", "how many words, or characters, ends of lines among them [100]"},
    {"temperature", "T", "below 1: more likely words; 0: always the most likely one [1]"},
    {"seed", "N", "another seed, another text [0]"},
    {0},
};

const cli_verb verb_generate = {
    .name = "generate",
    .usage = "psgd generate RUN [--words N] [--temperature T] [--seed N]",
    .summary = "Write text with a language model that psgd train lm or psgd paper wikitext2 has trained",
    .flags = flags,
    .example = "  psgd train lm --data markov:200,4,20000,1 --hidden 16 --epochs 1 --out language\n"
               "  psgd generate language --words 20\n",
    .run = run,
};
