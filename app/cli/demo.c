/* psgd demo: what the library does, in a table and a figure. */
#include "cli/cli.h"
#include "report/demo.h"

static psgd_status run(const cli_args *args)
{
    const char *out = cli_value(args, "out");
    int64_t seed = 3;
    if (args->positional_count > 0) return cli_wrong_use("psgd demo takes flags only, not '%s'", args->positional[0]);
    PSGD_TRY(cli_count(args, "seed", &seed));
    if (!out) out = "demo";

    text table = {0};
    psgd_status status = psgd__demo_run(NULL, out, (uint64_t)seed, &table);
    if (status == PSGD_OK && table.chars) {
        printf("%s\nFigure: %s/spectrum.svg and %s/spectrum.png\n", table.chars, out, out);
    }
    psgd__text_free(&table);
    return status;
}

static const cli_flag flags[] = {
    {"out", "DIR", "folder for the figures [demo]"},
    {"seed", "N", "of the problem and of the fit [3]"},
    {0},
};

const cli_verb verb_demo = {
    .name = "demo",
    .usage = "psgd demo [--out DIR] [--seed N]",
    .summary = "Fit preconditioners on several groups to an ill-conditioned Hessian and draw the spectra",
    .flags = flags,
    .example = "  psgd demo --out figures\n",
    .run = run,
};
