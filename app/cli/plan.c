#include "cli/plan.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 1024 };

typedef struct shapes {
    int count;
    int ndim[MAX_TENSORS];
    int64_t sizes[MAX_TENSORS][32];
    const int64_t *each[MAX_TENSORS];
    char words[MAX_TENSORS][96];
} shapes;

/* "96x364,256x2401" */
static psgd_status read_shapes(const char *word, shapes *to)
{
    while (*word) {
        size_t length = strcspn(word, ",");
        if (to->count == MAX_TENSORS) return cli_wrong_use("--shapes takes at most %d tensors", MAX_TENSORS);
        char *own = to->words[to->count];
        if (length >= sizeof to->words[0]) return cli_wrong_use("'%.40s...' in --shapes is too long", word);
        memcpy(own, word, length);
        own[length] = 0;
        PSGD_TRY(cli_shape(own, &to->ndim[to->count], to->sizes[to->count]));
        to->each[to->count] = to->sizes[to->count];
        to->count++;
        word += length + (word[length] == ',');
    }
    return to->count ? PSGD_OK : cli_wrong_use("--shapes needs at least one shape, as in 96x364,256x2401");
}

/* "1.5x" is a multiple, "300M" or "2e9" are bytes. */
static psgd_status read_budget(const char *word, psgd_options *options)
{
    static const char units[] = "kMGT";
    char *end;
    double number = psgd__to_number(word, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (end != word && number >= 0 && !strcmp(end, "x")) return psgd_options_set_number(options, "budget", number);
    for (long i = unit ? unit - units : -1; i >= 0; i--) number *= 1000;
    if (end == word || !(number > 0) || (*end && (!unit || end[1]))) {
        return cli_wrong_use("--budget is a multiple of the parameters, as in 1.5x, or bytes, as in 300M; not '%s'",
                             word);
    }
    return psgd_options_set_number(options, "bytes", number);
}

static psgd_status read_options(const cli_args *args, psgd_options *options)
{
    static const char *const passed[] = {"time", "gradient-flops", "max-factor", "criterion"};
    const char *budget = cli_value(args, "budget");
    if (budget) PSGD_TRY(read_budget(budget, options));
    for (int i = 0; i < 4; i++) {
        const char *value = cli_value(args, passed[i]);
        if (value) PSGD_TRY(psgd_options_set(options, passed[i], value));
    }
    return PSGD_OK;
}

static int64_t sizes_of(const shapes *s, int t)
{
    int64_t n = 1;
    for (int i = 0; i < s->ndim[t]; i++) n *= s->sizes[t][i];
    return n;
}

static void show(const shapes *s, const psgd_plan *plan, psgd_dtype dtype)
{
    char bytes[32], next[32];
    double parameters = 0, size = (double)psgd_dtype_size(dtype);
    printf("%-20s %-28s %16s %9s %11s   %s\n", "tensor", "group", "bytes", "x tensor", "flops",
           "the next richer one, and its bytes");
    for (int t = 0; t < s->count; t++) {
        double own = (double)sizes_of(s, t) * size;
        const char *richer = psgd_plan_next_spec(plan, t);
        parameters += own;
        printf("%-20s %-28s %16s %9.3g %11.3g   ", s->words[t], psgd_plan_spec(plan, t),
               psgd__thousands(psgd_plan_bytes(plan, t), bytes), (double)psgd_plan_bytes(plan, t) / own,
               psgd_plan_flops(plan, t));
        if (richer) {
            printf("%s: %s (%.3g x)\n", richer, psgd__thousands(psgd_plan_next_bytes(plan, t), next),
                   (double)psgd_plan_next_bytes(plan, t) / own);
        } else {
            puts("none");
        }
    }
    printf("%-20s %-28s %16s %9.3g %11.3g\n", "all", "", psgd__thousands(psgd_plan_total_bytes(plan), bytes),
           (double)psgd_plan_total_bytes(plan) / parameters, psgd_plan_total_flops(plan));
}

/* With --ranks the groups may also be given: one spec for all. */
static psgd_status show_ranks(const cli_args *args, const psgd_context *context, const shapes *s, const psgd_plan *plan,
                              psgd_dtype dtype)
{
    static const char *specs[MAX_TENSORS];
    int64_t ranks = 0;
    if (!cli_value(args, "ranks")) return PSGD_OK;
    PSGD_TRY(cli_count(args, "ranks", &ranks));
    for (int t = 0; t < s->count; t++) {
        specs[t] = args->positional_count ? args->positional[0] : psgd_plan_spec(plan, t);
    }
    plan_tensors all = {context, dtype, s->count, s->ndim, s->each, specs};
    return cli_plan_ranks(args, &all, ranks);
}

psgd_status cli_plan(const cli_args *args, const psgd_context *context)
{
    static shapes s;
    const char *word = cli_value(args, "shapes");
    psgd_dtype dtype = PSGD_F32;
    psgd_options *options;
    psgd_plan *plan = NULL;
    if (!word) word = cli_value(args, "shape");
    if (!word) return cli_wrong_use("psgd group --plan needs --shapes, as in --shapes 96x364,256x2401");
    bool given = args->positional_count == 1 && cli_value(args, "ranks");
    if (args->positional_count && !given) {
        return cli_wrong_use("psgd group --plan chooses the group; leave out the SPEC, which is for --ranks");
    }
    PSGD_TRY(read_shapes(word, &s));
    PSGD_TRY(cli_dtype(args, &dtype));
    PSGD_TRY(psgd_options_create(context, &options));
    psgd_status status = read_options(args, options);
    if (status == PSGD_OK) status = psgd_plan_create(context, s.count, s.ndim, s.each, dtype, options, &plan);
    if (status == PSGD_OK && !given) show(&s, plan, dtype);
    if (status == PSGD_OK) status = show_ranks(args, context, &s, plan, dtype);
    psgd_plan_free(plan);
    psgd_options_free(options);
    return status;
}
