/* psgd group: what a spec is and what it costs. */
#include "cli/cli.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <stdlib.h>

static int list_groups(void)
{
    for (int i = 0; psgd_group_name(NULL, i); i++) {
        printf("%-10s %-62s numbers: %s\n", psgd_group_name(NULL, i), psgd_group_summary(NULL, i),
               psgd_group_formula(NULL, i));
    }
    return EXIT_SUCCESS;
}

static int show_group(const char *spec, const char *shape_word, const char *dtype_word)
{
    int modes;
    int64_t shape[32], numbers, bytes, size = 1;
    double update_flops, update_bytes, apply_flops, apply_bytes;
    psgd_dtype dtype = PSGD_F32;
    char *tree, digits[32], more[32];
    if (!cli_shape(shape_word, &modes, shape)) return EXIT_WRONG_USE;
    if (dtype_word && !cli_dtype(dtype_word, &dtype)) return EXIT_WRONG_USE;

    psgd_status status = psgd_group_cost(NULL, spec, modes, shape, dtype, &numbers, &bytes, &update_flops,
                                         &update_bytes, &apply_flops, &apply_bytes);
    if (status == PSGD_OK) status = psgd_group_tree(NULL, spec, modes, shape, dtype, &tree);
    if (status != PSGD_OK) return cli_status(status);

    for (int i = 0; i < modes; i++) size *= shape[i];
    int64_t own = size * (int64_t)psgd_dtype_size(dtype);
    printf("%-40s numbers\n%s\n", "group:size", tree);
    printf("%-18s %20s numbers %20s bytes\n", "parameter", psgd__thousands(size, digits), psgd__thousands(own, more));
    printf("%-18s %20s numbers %20s bytes  (%.3g x the parameter)\n", "Q stores", psgd__thousands(numbers, digits),
           psgd__thousands(bytes, more), (double)bytes / (double)own);
    printf("%-18s %20.4g flops   %20.4g bytes moved\n", "one update", update_flops, update_bytes);
    printf("%-18s %20.4g flops   %20.4g bytes moved\n", "one apply of P", apply_flops, apply_bytes);
    psgd_text_free(NULL, tree);
    return EXIT_SUCCESS;
}

static int run(const cli_args *args)
{
    if (cli_value(args, "list")) return list_groups();
    if (args->positional_count != 1) return cli_wrong_use("psgd group needs one SPEC, or --list");
    const char *shape = cli_value(args, "shape");
    if (!shape) return cli_wrong_use("psgd group needs --shape, as in --shape 4096x4097");
    return show_group(args->positional[0], shape, cli_value(args, "dtype"));
}

static const cli_flag flags[] = {
    {"shape", "D1xD2x..", "the tensor that the group acts on"},
    {"dtype", "f32|f64", "number type [f32]"},
    {"list", NULL, "one line for each group"},
    {0},
};

const cli_verb verb_group = {
    .name = "group",
    .usage = "psgd group SPEC --shape D1xD2x.. | psgd group --list",
    .summary = "Show the tree of a group spec, its numbers, bytes and flops",
    .flags = flags,
    .more = "A spec is a name, or a name with groups in brackets, each with a size where it does not follow:\n"
            "  diag   kron(tri,tri)   kron(t(block(diag:2,tri)),sum(bnorm:3,scale:4))\n",
    .run = run,
};
