/* psgd fit: fits a preconditioner to pairs (v, h) from .npy files. */
#include "cli/cli.h"
#include "train/fit.h"
#include "report/progress.h"

static void show_progress(void *data, int64_t done, int64_t total)
{
    psgd__progress_show(data, done, total);
}

static psgd_status fit_and_tell(const psgd_context *context, fit_job job)
{
    progress bar;
    text summary = {.context = context};
    psgd__progress_start(&bar, stderr, "pair");
    job.progress = show_progress;
    job.progress_data = &bar;
    psgd_status status = psgd__fit_run(context, &job, &summary);
    psgd__progress_end(&bar);
    if (status == PSGD_OK && summary.chars) fputs(summary.chars, stdout);
    psgd__text_free(&summary);
    return status;
}

static psgd_status run(const cli_args *args)
{
    static const char *const needed[] = {"group", "shape", "h", "out", NULL};
    if (args->positional_count > 0) return cli_wrong_use("psgd fit takes flags only, not '%s'", args->positional[0]);
    for (int i = 0; needed[i]; i++) {
        if (!cli_value(args, needed[i])) return cli_wrong_use("psgd fit needs --%s", needed[i]);
    }
    int64_t shape[32], seed = 0;
    fit_job job = {.group = cli_value(args, "group"),
                   .shape = shape,
                   .v = cli_value(args, "v"),
                   .h = cli_value(args, "h"),
                   .apply = cli_value(args, "apply"),
                   .out = cli_value(args, "out"),
                   .report = cli_value(args, "report")};
    PSGD_TRY(cli_shape(cli_value(args, "shape"), &job.ndim, shape));
    PSGD_TRY(cli_dtype(args, &job.dtype));
    PSGD_TRY(cli_count(args, "seed", &seed));
    job.seed = (uint64_t)seed;

    psgd_context *context;
    psgd_options *options = NULL;
    PSGD_TRY(cli_context(args, &context));
    psgd_status status = psgd_options_create(NULL, &options);
    if (status == PSGD_OK) status = cli_options(psgd_precond_option, args, options);
    job.options = options;
    if (status == PSGD_OK) status = fit_and_tell(context, job);
    psgd_options_free(options);
    psgd_context_free(context);
    return status;
}

static const cli_flag flags[] = {
    {"group", "SPEC", "the group of Q; psgd group --list shows all"},
    {"shape", "D1xD2x..", "shape of the tensor"},
    {"v", "FILE", ".npy of shape (T, D1, D2, ..): v of each pair; drawn from --seed if not given"},
    {"h", "FILE", ".npy of the same shape: Hessian-vector products, or gradients with fisher"},
    {"apply", "FILE", ".npy of shape (M, D1, D2, ..): P times each of these is written to PG.npy"},
    {"out", "DIR", "folder for PG.npy and Q1.npy, Q2.npy, ..; created if missing"},
    {"report", "FILE",
     "JSON lines after each update: criterion, its running average, condition and diagonal of each factor"},
    {"seed", "N", "of v, if --v is not given [0]"},
    {"dtype", "f32|f64", "dtype of the fit and of the arrays written [f32]"},
    {"load", "FILE", "a shared object with user groups; may be repeated"},
    {0},
};

const cli_verb verb_fit = {
    .name = "fit",
    .usage = "psgd fit --group SPEC --shape D1xD2x.. [--v V.npy] --h H.npy [--apply G.npy] --out DIR [options]",
    .summary = "Fit a preconditioner to pairs (v, h) from .npy files",
    .flags = flags,
    .options = {psgd_precond_option},
    .more =
        "The T updates run in order. Q1.npy, Q2.npy, .. hold the factors of a kron as square matrices, or Q itself,\n"
        "up to a side of 8192. Arrays are float32 or float64 in C order. psgd report draws what --report writes.\n",
    .example = "  psgd fit --group 'kron(tri,tri)' --shape 64x33 --v V.npy --h H.npy --apply G.npy --out fitted\n"
               "  psgd fit --group scan --shape 64x33 --h H.npy --criterion fisher --out fitted --report fit.jsonl\n",
    .run = run,
};
