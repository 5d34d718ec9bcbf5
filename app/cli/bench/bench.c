/* psgd bench: how fast the library runs here, compared with the limits of the machine. */
#include "cli/bench/bench.h"
#include "cli/cli.h"

#include <psgd/threads.h>
#include <string.h>

#ifndef PSGD_COMMIT
#define PSGD_COMMIT "unknown"
#endif

static void cpu_name(char *name, size_t size)
{
    (void)snprintf(name, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        (void)snprintf(name, size, "%.100s", colon + 2);
        break;
    }
    if (file) fclose(file);
}

static void print_machine(bool json)
{
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    const char *format = json ? "{\"cpu\":\"%s\",\"threads\":%d,\"version\":\"%s\",\"commit\":\"%s\"}\n"
                              : "%s, %d threads, psgd %s, commit %s\n";
    printf(format, cpu, psgd_threads(), psgd_version(), PSGD_COMMIT);
}

static psgd_status run(const cli_args *args)
{
    const char *what = args->positional_count == 1 ? args->positional[0] : "", *clock = cli_value(args, "clock");
    bool optim = !strcmp(what, "optim"), images = !strcmp(what, "images") || !strcmp(what, "pictures");
    if (!optim && !images && strcmp(what, "groups")) {
        return cli_wrong_use("psgd bench measures 'groups', 'optim' or 'images': psgd bench groups [--quick] [--json]");
    }
    if (images && !cli_value(args, "data")) return cli_wrong_use("psgd bench images needs --data DIR");
    bench_settings settings = {.quick = cli_value(args, "quick") != NULL,
                               .json = cli_value(args, "json") != NULL,
                               .spec = cli_value(args, "spec"),
                               .shape = cli_value(args, "shape"),
                               .rule = cli_value(args, "rule")};
    PSGD_TRY(cli_dtype(args, &settings.dtype));
    if (clock && !strcmp(clock, "processor")) {
        if (psgd_threads() > 1) {
            return cli_wrong_use("--clock processor adds up threads; run it with PSGD_NUM_THREADS=1");
        }
        bench_use_processor_time();
    } else if (clock && strcmp(clock, "wall")) {
        return cli_wrong_use("--clock is wall or processor, not '%s'", clock);
    }
    if (!optim && !images) PSGD_TRY(bench_groups_check(&settings));
    print_machine(settings.json);
    if (images) return bench_images(cli_value(args, "data"));
    return optim ? bench_optim(&settings) : bench_groups(&settings);
}

static const cli_flag flags[] = {
    {"quick", NULL, "fewer cases and runs"},
    {"json", NULL, "one JSON object a line"},
    {"dtype", "f32|f64", "dtype [f32]"},
    {"clock", "wall|processor", "processor time, on one thread, for a machine that others use as well [wall]"},
    {"spec", "SPEC", "only cases of this group"},
    {"shape", "D1xD2", "only cases of this shape; with --spec any spec and shape"},
    {"rule", "RULE", "only cases of this update rule; with --spec and --shape that rule"},
    {"data", "DIR", "images: JPEGs in class folders"},
    {0},
};

const cli_verb verb_bench = {
    .name = "bench",
    .usage = "psgd bench groups [--quick] [--json] [--dtype f32|f64] [--clock wall|processor] [--spec SPEC] [--shape "
             "D1xD2] [--rule RULE] | "
             "psgd bench optim [--quick] | psgd bench images --data DIR",
    .summary = "Measure groups and optimizers, compared with the limits of this machine",
    .flags = flags,
    .more =
        "Times are medians, with the 10th and 90th percentile in brackets. Bytes and flops are the minimum that an\n"
        "op needs; the last column compares with the limits of the machine, measured between the runs. Working\n"
        "sets below 64 MB may fit a cache and are not compared. Threads: PSGD_NUM_THREADS,\n"
        "else OMP_NUM_THREADS.\n",
    .example = "  psgd bench groups --spec diag --shape 1000x100 --quick\n",
    .run = run,
};
