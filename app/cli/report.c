/* psgd report: a page, and figures, from the metric logs of runs. */
#include "cli/cli.h"
#include "report/report.h"

#include <sys/stat.h>

static psgd_status write_all(const cli_args *args, report *from)
{
    const char *out = cli_value(args, "out"), *figure = cli_value(args, "figure");
    struct stat about;
    FILE *lines = stdout;
    for (int i = 0; i < args->positional_count; i++) PSGD_TRY(psgd__report_add(from, args->positional[i]));
    if (out || !figure) {
        out = out ? out : "report.html";
        PSGD_TRY(psgd__report_page(from, out));
        /* Not after the page itself, where that goes to a pipe. */
        if (stat(out, &about) != 0 || !S_ISREG(about.st_mode)) lines = stderr;
        fprintf(lines, "%s: %d run%s\n", out, from->run_count, from->run_count == 1 ? "" : "s");
    }
    if (!figure) return PSGD_OK;
    const char *against = cli_value(args, "against");
    text written = {0};
    report_view view = {cli_value(args, "metric"), against ? against : "step", cli_value(args, "title")};
    psgd_status status = psgd__report_figure(from, &view, figure, &written);
    if (status == PSGD_OK && written.chars) fputs(written.chars, lines);
    psgd__text_free(&written);
    return status;
}

static psgd_status run(const cli_args *args)
{
    if (args->positional_count == 0) return cli_wrong_use("psgd report needs at least one RUN, the folder of a run");
    report gathered = {0};
    psgd_status status = write_all(args, &gathered);
    psgd__report_free(&gathered);
    return status;
}

static const cli_flag flags[] = {
    {"out", "FILE", "the page, also -o FILE [report.html, or none with --figure]"},
    {"figure", "STEM", "also draw STEM.svg and STEM.png (STEM-TASK.svg for several tasks)"},
    {"metric", "'SPLIT NAME'", "what the figure shows, as in 'valid perplexity' [the first that the runs share]"},
    {"against", "step|epoch|seconds", "the figure's horizontal axis [step]"},
    {"title", "TEXT", "the figure's title [the task]"},
    {0},
};

const cli_verb verb_report = {
    .name = "report",
    .usage = "psgd report RUN... [-o report.html] [--figure STEM]",
    .summary = "Make one page with the curves, results, settings and preconditioners of runs",
    .flags = flags,
    .more = "A RUN is the folder of a run (with metrics.jsonl in it), a folder of such folders, or a log itself.\n"
            "The page needs no network and no other file. A run that is still going can be looked at.\n",
    .example = "  psgd train mlp --data digits --samples 1000 --epochs 2 --out runs/newton\n"
               "  psgd train mlp --data digits --samples 1000 --epochs 2 --optimizer adam --out runs/adam\n"
               "  psgd report runs -o runs/report.html --figure runs/loss\n",
    .run = run,
};
