/* psgd train, resume and eval. */
#include "cli/cli.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The ranks of a run: all share the batch, but for curvature ranks. */
static psgd_status find_ranks(const cli_args *args, train_ranks *ranks)
{
    int64_t count = 0;
    *ranks = (train_ranks){.comm = cli_comm()};
    if (!cli_value(args, "curvature-ranks")) return PSGD_OK;
    PSGD_TRY(cli_count(args, "curvature-ranks", &count));
    if (count == 0) return PSGD_OK;
    PSGD_TRY(cli_comm_divide(count, &ranks->comm, &ranks->all));
    ranks->curvature_ranks = (int)count;
    return PSGD_OK;
}

/* A new run of the model named first, or the run in the folder of that name. Flags other than the verbs' own are
 * settings of it. */
static psgd_status open_run(const cli_args *args, bool is_new, trainer **self)
{
    train_setting settings[TRAIN_MAX_SETTINGS];
    const char *first = args->positional[0], *weights = cli_value(args, "weights");
    int count = 0;
    train_ranks ranks;
    PSGD_TRY(find_ranks(args, &ranks));
    for (int i = 0; i < args->flag_count && count < TRAIN_MAX_SETTINGS - 2; i++) {
        bool own = !strcmp(args->name[i], "dry-run") || !strcmp(args->name[i], "weights") ||
                   !strcmp(args->name[i], "curvature-ranks");
        if (!own) settings[count++] = (train_setting){args->name[i], args->value[i]};
    }
    if (!is_new) return psgd__trainer_resume(NULL, &ranks, first, count, settings, self);
    settings[count++] = (train_setting){"model", first};
    if (cli_comm() && !cli_value(args, "micro-batches") && count < TRAIN_MAX_SETTINGS) {
        settings[count++] = (train_setting){"micro-batches", "8"};
    }
    PSGD_TRY(psgd__trainer_create(NULL, &ranks, count, settings, self));
    return weights ? psgd__trainer_load_weights(*self, weights) : PSGD_OK;
}

/* Trains to the end or to an interrupt, and says how to resume. */
static psgd_status run_trainer(const cli_args *args, trainer *self)
{
    bool stopped;
    train_state now = psgd__trainer_state(self);
    if (*now.note) puts(now.note);
    if (now.step > 0 && now.step >= now.total) {
        printf("%s has made all of its steps, %lld; %s with more of them continues it\n",
               now.folder ? now.folder : "the run", (long long)now.step, now.limit);
    }
    PSGD_TRY(cli_run_trainer(self, stdout, &stopped));
    if (!stopped) return PSGD_OK;
    printf("stopped after step %lld", (long long)psgd__trainer_state(self).step);
    if (now.folder) printf("; resume with: psgd resume %s", now.folder);
    puts(now.folder ? "" : "; without --out nothing was saved");
    *args->code = EXIT_FAILURE;
    return PSGD_OK;
}

static psgd_status describe(trainer *self)
{
    text lines = {0};
    psgd_status status = psgd__trainer_describe(self, &lines);
    if (status == PSGD_OK) fputs(lines.chars, stdout);
    psgd__text_free(&lines);
    return status;
}

static psgd_status train(const cli_args *args)
{
    trainer *self = NULL;
    if (args->positional_count != 1) return cli_wrong_use("psgd train needs one MODEL; psgd train --help lists them");
    psgd_status status = open_run(args, true, &self);
    if (status == PSGD_OK) status = cli_value(args, "dry-run") ? describe(self) : run_trainer(args, self);
    psgd__trainer_free(self);
    return status;
}

static psgd_status resume(const cli_args *args)
{
    trainer *self = NULL;
    if (args->positional_count != 1) return cli_wrong_use("psgd resume needs the folder of one run");
    psgd_status status = open_run(args, false, &self);
    if (status == PSGD_OK) status = run_trainer(args, self);
    psgd__trainer_free(self);
    return status;
}

/* A run by its folder, or a model with weights from a file. */
static psgd_status evaluate(const cli_args *args)
{
    trainer *self = NULL;
    train_score valid, test;
    if (args->positional_count != 1) return cli_wrong_use("psgd eval needs one RUN, or one MODEL with --weights");
    psgd_status status = open_run(args, cli_value(args, "weights") != NULL, &self);
    if (status == PSGD_OK) status = cli_evaluate(self, &valid, &test);
    if (status == PSGD_OK) {
        if (isfinite(valid.loss)) printf("validation loss %.6f\n", valid.loss);
        printf("test loss %.6f\n", test.loss);
        if (isfinite(test.perplexity)) printf("test perplexity %.2f\n", test.perplexity);
        if (isfinite(test.error)) printf("test error %.2f %%\n", 100 * test.error);
        if (isfinite(test.top5_error)) printf("test top-5 error %.2f %%\n", 100 * test.top5_error);
        cli_report_reading(self, stdout);
    }
    psgd__trainer_free(self);
    return status;
}

#define CURVATURE_FLAG                                                                                                 \
    {                                                                                                                  \
        "curvature-ranks", "N",                                                                                        \
            "with --delay, under mpirun: the last N ranks evaluate Hv and fit while the others step"                   \
    }

static const cli_flag train_flags[] = {
    {"dry-run", NULL, "print settings, shapes, groups, bytes and flops, and stop"},
    {"weights", "FILE", "start from weights in a safetensors file, not from random ones"},
    CURVATURE_FLAG,
    {0},
};

static const cli_flag resume_flags[] = {CURVATURE_FLAG, {0}};

static const cli_flag eval_flags[] = {{"weights", "FILE", "weights of the MODEL in a safetensors file"}, {0}};

static int train_option(int index, psgd_option_info *option)
{
    return psgd__option_at(psgd__train_options, psgd__train_option_count, index, option);
}

static int model_option(int index, psgd_option_info *option)
{
    return psgd__option_at(psgd__model_options, psgd__model_option_count, index, option);
}

/* What evaluation takes of those of training: all that says where data come from, and how they are read. */
static int eval_option(int index, psgd_option_info *option)
{
    static const char *const own[] = {"data",   "batch",       "dtype",        "samples",        "height",
                                      "width",  "holdout",     "regression",   "resize",         "validation",
                                      "cache",  "truth",       "seed",         "decode-threads", "eval-batches",
                                      "mirror", "random-crop", "subtract-mean"};
    for (int i = 0; train_option(i, option); i++) {
        bool shown = false;
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) shown = shown || !strcmp(own[k], option->name);
        if (shown && index-- == 0) return 1;
    }
    return 0;
}

#define TRAIN_OPTIONS                                                                                                  \
    .options = {train_option, model_option, cli_optimizer_option},                                                     \
    .sections = {"Training and data", "The model", "The optimizer"}, .schedule = "cosine"

const cli_verb verb_train = {
    .name = "train",
    .usage = "psgd train MODEL --data SOURCE [--optimizer NAME] [--out DIR] [options]",
    .summary = "Train a model",
    .flags = train_flags,
    .ranks = true,
    TRAIN_OPTIONS,
    .more =
        "Models: logistic, mlp, autoencoder, factors (pairs), lenet5, alexnet (images), rnn, lstm (sequences), lm (a "
        "text).\n"
        "Sources:\n"
        "  digits             synthetic 28 x 28 digits\n"
        "  xor:LENGTH         delayed XOR;  adding:LENGTH  the adding problem\n"
        "  logit:FEATURES,SPREAD  two classes, correlated features with scales from 10^-SPREAD to 10^SPREAD\n"
        "  ratings:SIZE,RANK  factors: entries of a matrix of low rank;  oscillator  a damped oscillator, for mlp\n"
        "  idx:DIR            IDX files as MNIST has them, plain or .gz\n"
        "  images:DIR         JPEGs in class folders, DIR/train/CLASS/.. and DIR/test/.., or DIR/CLASS/..\n"
        "  csv:FILE           numbers with commas between them, a sample a line, its label last; labels 0, 1, 2, ... "
        "are\n"
        "                     classes unless there is --regression yes, any others regression; a first line without\n"
        "                     numbers is a heading; features are not scaled\n"
        "  npy:X.npy,Y.npy    NumPy arrays\n"
        "  text:DIR           lm: train.txt, valid.txt and test.txt, UTF-8\n"
        "  chars:FILE         lm: one UTF-8 text, from character to character; its last tenth is held out\n"
        "  markov             lm: a synthetic language of known entropy; markov:WORDS,FOLLOWERS,LENGTH,SEED\n\n"
        "Options have the same names in psgd_options_set in C and, with _ for -, of psgd.torch.PSGD in Python.\n",
    .example = "  psgd train mlp --data digits --samples 2000 --epochs 2 --out run\n"
               "  psgd train lenet5 --data digits --samples 500 --epochs 1 --optimizer adam --lr 0.002\n"
               "  psgd train lm --data markov:200,4,20000,1 --hidden 16 --epochs 1 --out language\n"
               "  psgd train mlp --data digits --group 'kron(tri,tri)' --dry-run\n",
    .run = train,
};

const cli_verb verb_resume = {
    .name = "resume",
    .usage = "psgd resume RUN [options that replace those of the run]",
    .summary = "Resume a run from its checkpoint",
    .flags = resume_flags,
    .ranks = true,
    TRAIN_OPTIONS,
    .more = "A run that has made all of its steps says so, and which of --epochs and --steps continues it.\n",
    .example = "  psgd train mlp --data digits --samples 2000 --epochs 1 --out run\n"
               "  psgd resume run --epochs 2\n",
    .run = resume,
};

const cli_verb verb_eval = {
    .name = "eval",
    .usage = "psgd eval RUN | psgd eval MODEL --weights FILE --data SOURCE",
    .summary = "Loss and error of a run, or of weights, on test data",
    .flags = eval_flags,
    .options = {eval_option, model_option},
    .sections = {"Data, where they are not those of the run", "The model, with --weights"},
    .example = "  psgd train mlp --data digits --samples 2000 --epochs 1 --out run\n"
               "  psgd eval run\n"
               "  psgd eval mlp --weights run/weights.safetensors --data digits\n",
    .run = evaluate,
};
