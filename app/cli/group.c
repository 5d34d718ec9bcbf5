/* psgd group: what a spec is, what it costs, and whether it keeps the laws of a group. */
#include "cli/cli.h"

#include <string.h>

/* A spec on a tensor, as the flags name it. */
typedef struct target {
    psgd_context *context;
    const char *spec;
    int ndim;
    int64_t shape[32];
    psgd_dtype dtype;
} target;

static psgd_status list_groups(const psgd_context *context)
{
    for (int i = 0; psgd_group_name(context, i); i++) {
        printf("%-10s %-62s elements: %s\n", psgd_group_name(context, i), psgd_group_summary(context, i),
               psgd_group_formula(context, i));
    }
    printf("%-10s %-62s elements: %s\n", "auto", "what --plan chooses for the tensor alone", "at most 4 x, or 64 KB");
    return PSGD_OK;
}

/* Says so where the rank of a family exceeds n: the family is then that of rank n. */
static void tell_rank(const char *spec, int64_t n)
{
    long long rank = 0;
    char name[8] = "";
    bool family = sscanf(spec, " %7[a-z] ( %lld )", name, &rank) == 2 &&
                  (!strcmp(name, "lra") || !strcmp(name, "splu"));
    if (!family || rank <= n) return;
    fprintf(stderr, "psgd: note: %s has a rank above the %lld elements of the tensor; it is %s(%lld)\n", spec,
            (long long)n, name, (long long)n);
}

static psgd_status show_group(const target *on)
{
    int64_t stored, bytes, size = 1;
    double update_flops, update_bytes, apply_flops, apply_bytes;
    char *tree, digits[32], more[32];
    PSGD_TRY(psgd_group_cost(on->context, on->spec, on->ndim, on->shape, on->dtype, &stored, &bytes, &update_flops,
                             &update_bytes, &apply_flops, &apply_bytes));
    PSGD_TRY(psgd_group_tree(on->context, on->spec, on->ndim, on->shape, on->dtype, &tree));

    for (int i = 0; i < on->ndim; i++) size *= on->shape[i];
    tell_rank(on->spec, size);
    int64_t own = size * (int64_t)psgd_dtype_size(on->dtype);
    printf("%-40s elements\n%s\n", "group:size", tree);
    printf("%-18s %20s elements %20s bytes\n", "parameter", psgd__thousands(size, digits), psgd__thousands(own, more));
    printf("%-18s %20s elements %20s bytes  (%.3g x the parameter)\n", "Q stores", psgd__thousands(stored, digits),
           psgd__thousands(bytes, more), (double)bytes / (double)own);
    printf("%-18s %20.4g flops   %20.4g bytes moved\n", "one update", update_flops, update_bytes);
    printf("%-18s %20.4g flops   %20.4g bytes moved\n", "one apply of P", apply_flops, apply_bytes);
    psgd_text_free(on->context, tree);
    return PSGD_OK;
}

static psgd_status check_group(const target *on, uint64_t seed)
{
    int broken;
    char *report;
    PSGD_TRY(psgd_group_check(on->context, on->spec, on->ndim, on->shape, on->dtype, seed, &broken, &report));
    fputs(report, stdout);
    psgd_text_free(on->context, report);
    if (broken) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "%s breaks %d law%s", on->spec, broken, broken == 1 ? "" : "s");
    }
    puts("all laws hold");
    return PSGD_OK;
}

static psgd_status run_on(const cli_args *args, psgd_context *context)
{
    const char *shape = cli_value(args, "shape"), *draw = cli_value(args, "draw");
    target on = {.context = context, .spec = args->positional[0]};
    int64_t seed = 1;
    if (cli_value(args, "list")) return list_groups(context);
    if (cli_value(args, "plan")) return cli_plan(args, context);
    if (args->positional_count != 1) return cli_wrong_use("psgd group needs one SPEC, or --list");
    if (!shape) return cli_wrong_use("psgd group needs --shape, as in --shape 4096x4097");
    PSGD_TRY(cli_shape(shape, &on.ndim, on.shape));
    PSGD_TRY(cli_dtype(args, &on.dtype));
    PSGD_TRY(cli_count(args, "seed", &seed));
    if (draw) {
        PSGD_TRY(cli_draw(context, on.spec, on.ndim, on.shape, cli_value(args, "q"), draw));
        printf("written: %s\n", draw);
        return PSGD_OK;
    }
    return cli_value(args, "check") ? check_group(&on, (uint64_t)seed) : show_group(&on);
}

static psgd_status run(const cli_args *args)
{
    psgd_context *context;
    PSGD_TRY(cli_context(args, &context));
    psgd_status status = run_on(args, context);
    psgd_context_free(context);
    return status;
}

static const cli_flag flags[] = {
    {"shape", "D1xD2x..", "the tensor that the group acts on"},
    {"dtype", "f32|f64", "dtype [f32]"},
    {"list", NULL, "one line for each group"},
    {"load", "FILE", "a shared object with groups of your own; may be given several times"},
    {"check", NULL, "try the laws of a group on random elements; exit status 1 where one breaks"},
    {"seed", "N", "which random elements [1]"},
    {"", NULL, "Drawing"},
    {"draw", "FILE", "FILE.svg, with captions, or FILE.png of what may be non-zero in Q: each factor, and the product"},
    {"q", "FILES", "the values in these .npy files, Q1.npy,Q2.npy,.. as psgd fit writes them"},
    {"", NULL, "Planning"},
    {"plan", NULL, "choose a group for each of --shapes: the richest that the budgets allow"},
    {"shapes", "S1,S2,..", "the tensors, as in 96x364,256x2401,10"},
    {"budget", "1.5x|BYTES",
     "memory, as a multiple of the parameters or as bytes (300M) [4x, at least 64 KB, as auto]"},
    {"time", "SHARE", "flops of a fit and a step, as a share of --gradient-flops [any]"},
    {"gradient-flops", "N", "flops of one gradient"},
    {"max-factor", "N", "the largest triangle that a mode gets [8192]"},
    {"criterion", "NAME", "newton, or fisher: fewer triangles on long outputs [newton]"},
    {"", NULL, "Planning for several ranks"},
    {"ranks", "N", "what 1, 2, 4, .. N ranks hold, move and take; with a SPEC: of that group for all tensors"},
    {"products", "SHARE", "steps with a Hessian-vector product [1]"},
    {"gflops", "X", "speed of a rank, 10^9 flops a second [50]"},
    {"gigabytes", "X", "what a rank can send or receive, 10^9 bytes a second [1]"},
    {"latency", "X", "of a message, microseconds [20]"},
    {0},
};

const cli_verb verb_group = {
    .name = "group",
    .usage = "psgd group [--check | --draw FILE] SPEC --shape D1xD2x.. | psgd group --plan [SPEC --ranks N] --shapes "
             "S1,S2,.. | psgd "
             "group --list",
    .summary = "Show the tree of a group spec, its elements, bytes and flops; check its laws, draw it, plan groups",
    .flags = flags,
    .more =
        "A spec is a name, or a name with groups in brackets, each with a size where it does not follow:\n"
        "  diag   kron(tri,tri)   kron(t(block(diag:2,tri)),sum(bnorm:3,scale:4))\n"
        "A shared object for --load defines psgd_status " PSGD_LOAD_SYMBOL "(psgd_context *); see\n"
        "<psgd/user_group.h> and examples/own_group: psgd group --load ./own.so --check 'kron(tri,own)' --shape 6x9\n",
    .example = "  psgd group 'kron(tri,tri)' --shape 4096x4097\n"
               "  psgd group --plan --shapes 96x364,256x2401,10\n"
               "  psgd group --draw q.svg 'kron(norm,tri)' --shape 8x6\n",
    .run = run,
};
