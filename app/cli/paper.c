/* psgd paper: the paper's experiments. */
#include "cli/cli.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/sort.h"
#include "paper/presets.h"
#include "paper/rosenbrock.h"

#include <math.h>

static void print_table(const rosenbrock_runs *runs)
{
    static const int at[] = {10, 50, 100, 150, 200, 300, 500};
    printf("%-18s", "iteration");
    for (int k = 0; k < 7; k++) printf(" %28d", at[k]);
    printf("\n%-18s", "");
    for (int k = 0; k < 7; k++) printf(" %28s", "median [quartiles]");
    putchar('\n');
    for (int m = 0; m < ROSENBROCK_METHODS; m++) {
        printf("%-18s", psgd__rosenbrock_methods[m].name);
        for (int k = 0; k < 7; k++) {
            double q[3];
            char cell[64];
            psgd__rosenbrock_quartiles(runs, m, at[k], q);
            snprintf(cell, sizeof cell, "%.2g [%.2g, %.2g]", q[1], q[0], q[2]);
            printf(" %28s", cell);
        }
        putchar('\n');
    }
}

static psgd_status rosenbrock(const char *folder)
{
    int created;
    rosenbrock_runs *runs = psgd__alloc(NULL, 1, sizeof *runs);
    psgd_status status = runs ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the runs");
    if (status == PSGD_OK) status = psgd__rosenbrock_run_all(runs);
    if (status == PSGD_OK) status = psgd__folder_create(folder, &created);
    if (status == PSGD_OK) status = psgd__rosenbrock_write((const rosenbrock_runs *)runs, folder);
    if (status == PSGD_OK) {
        print_table((const rosenbrock_runs *)runs);
        printf("written: %s/rosenbrock.csv, rosenbrock.svg, rosenbrock.png, rosenbrock/*/metrics.jsonl\n", folder);
    }
    psgd__free(NULL, runs);
    return status;
}

/* The step sizes of the paper's sequence: 1, 2 and 5 times powers of ten. */
static double sequence(int k)
{
    static const double digit[] = {1, 2, 5};
    return digit[(k % 3 + 3) % 3] * pow(10, floor(k / 3.0));
}

/* The median over the seeds of the value that is reached; methods that draw nothing need one seed. From (-1, 1) a first
 * step of 0.5 along the gradient ends on the minimum, by coincidence: that does not count. */
static psgd_status score(const rosenbrock_method *method, double lr, double step, int at, double *result)
{
    double values[ROSENBROCK_ITERATIONS + 1], reached[ROSENBROCK_SEEDS];
    int seeds = method->options[0] ? ROSENBROCK_SEEDS : 1;
    for (int seed = 0; seed < seeds; seed++) {
        PSGD_TRY(psgd__rosenbrock_run(method, lr, step, seed, values));
        reached[seed] = values[1] == 0 ? HUGE_VAL : values[at];
    }
    psgd__sort(seeds, reached);
    *result = reached[seeds / 2];
    return PSGD_OK;
}

static psgd_status search_method(const rosenbrock_method *method, int at)
{
    enum { MIN = -12, MAX = 0, FIT_MIN = -6, FIT_MAX = -1 };
    bool fits = method->options[0] != NULL;
    double best = HUGE_VAL, best_lr = 0, best_step = 0;
    for (int f = FIT_MIN; f <= (fits ? FIT_MAX : FIT_MIN); f++) {
        for (int k = MIN; k <= MAX; k++) {
            double value, step = fits ? sequence(f) : 0;
            PSGD_TRY(score(method, sequence(k), step, at, &value));
            if (value < best) {
                best = value;
                best_lr = sequence(k);
                best_step = step;
            }
        }
    }
    char step[32] = "";
    if (fits) snprintf(step, sizeof step, "%g", best_step);
    printf("%-18s %12g %12s %14.3g\n", method->name, best_lr, step, best);
    fflush(stdout);
    return PSGD_OK;
}

static psgd_status search(void)
{
    static const int at[] = {200, 1000};
    for (int k = 0; k < 2; k++) {
        printf("%-18s %12s %12s  value after %d\n", "method", "best mu", "best mu0", at[k]);
        for (int m = 0; m < ROSENBROCK_METHODS; m++) PSGD_TRY(search_method(&psgd__rosenbrock_methods[m], at[k]));
    }
    return PSGD_OK;
}

static psgd_status run_rosenbrock(const cli_args *args)
{
    const char *out = cli_value(args, "out");
    if (psgd_comm_size(cli_comm()) > 1) return cli_wrong_use("psgd paper rosenbrock runs on one rank");
    return cli_value(args, "search") ? search() : rosenbrock(out ? out : ".");
}

static psgd_status run_wikitext2(const cli_args *args)
{
    return cli_paper_runs(args, psgd__paper_find("wikitext2"));
}

static psgd_status run_imagenet(const cli_args *args)
{
    return cli_paper_runs(args, psgd__paper_find("imagenet"));
}

static psgd_status run(const cli_args *args)
{
    static const char *const names[] = {"rosenbrock", "wikitext2", "imagenet"};
    const char *name = args->positional_count > 0 ? args->positional[0] : NULL;
    return cli_wrong_use("psgd paper needs the name of an experiment first: rosenbrock, wikitext2 or imagenet%s",
                         name ? psgd__suggest("", name, names, 3).words : "");
}

static const cli_flag rosenbrock_flags[] = {
    {"out", "DIR", "where the files go [.]"},
    {"search", NULL, "search the step sizes over ..., 1, 0.5, 0.2, 0.1, ... instead, and print the best"},
    {0},
};

#define FIT_FLAGS                                                                                                      \
    {"", NULL, "The preconditioners"},                                                                                 \
        {"init", "scale|first", "Q starts at --init-scale times I, or at the scale of the first five pairs [scale]"},  \
        {"norm", "NAME", "normaliser of the fit, as in psgd train [auto]"},                                            \
        {"update-every", "N", "fit the preconditioners every so many steps [by method]"},                              \
        {"update-anneal", "N", "steps over which the probability of a fit falls from 1 to --update-floor [0: none]"},  \
    {                                                                                                                  \
        "update-floor", "P", "where that probability ends [0.03]"                                                      \
    }

#define DRY_RUN                                                                                                        \
    {                                                                                                                  \
        "dry-run", NULL, "print settings, shapes, groups, bytes and flops of each run, and stop"                       \
    }
#define EVAL_BATCHES                                                                                                   \
    {                                                                                                                  \
        "eval-batches", "N", "evaluate on so many batches of the validation and test data; 0: on all [0]"              \
    }

static const cli_flag wikitext2_flags[] = {
    {"out", "DIR", "where the runs go [wikitext2; without --data: 'synthetic language']"},
    {"data", "DIR", "train.txt, valid.txt and test.txt, UTF-8 [a synthetic language of known entropy]"},
    {"methods", "A,B,...", "those to run [sgd,fisher-scan,newton-scan-10,newton-scaw-10]"},
    DRY_RUN,
    {"", NULL, "Training"},
    {"epochs", "N", "passes over the data [1; synthetic: 2]"},
    {"steps", "N", "stop after so many steps; 0: at the end of the epochs [0]"},
    {"lr", "X", "step size mu [by method, the paper's]"},
    {"batch", "N", "columns of text [20]"},
    {"micro-batches", "N", "parts of a batch, as in psgd train [1; 8 under mpirun]"},
    {"seed", "N", "of the start, masks and v [1]"},
    EVAL_BATCHES,
    {"log-every", "N", "steps between entries of the log [20]"},
    {"checkpoint-every", "N", "steps between checkpoints [500]"},
    {"", NULL, "The model"},
    {"hidden", "N", "units of the embedding and of each layer [200; synthetic: 50]"},
    {"back", "N", "steps back in time [35]"},
    {"dropout", "P", "after each layer [0.2; synthetic: 0]"},
    {"embedding-dropout", "P", "on the embedding, where the paper has none [0]"},
    {"untied", NULL, "embedding and decoder have a matrix each; the gradient of the former is row-sparse"},
    {"rows", "exact|lazy|whole", "with --untied, PSGD's fit of absent rows; whole: dense gradients [exact]"},
    FIT_FLAGS,
    {"init-scale", "X", "[1]"},
    {0},
};

static const cli_flag imagenet_flags[] = {
    {"out", "DIR", "where the runs and the report page go [imagenet]"},
    {"data", "DIR", "train/CLASS/*.JPEG and val/"},
    {"size", "full|small", "small is the same net scaled down for 32 x 32 images [full]"},
    {"methods", "A,B,...", "those to run [all of the list below but newton-scan-10]"},
    DRY_RUN,
    {"", NULL, "Training"},
    {"epochs", "N", "passes over the data [40]"},
    {"steps", "N", "stop after so many steps; 0: at the end of the epochs [0]"},
    {"lr", "X", "step size mu [by method, the paper's]"},
    {"batch", "N", "images of a step [128]"},
    {"micro-batches", "N", "parts of a batch, as in psgd train [1; 8 under mpirun]"},
    {"dropout", "P", "before the last three matrices [0.5]"},
    {"seed", "N", "of the start, the order, masks and v [1]"},
    EVAL_BATCHES,
    {"log-every", "N", "steps between entries of the log [20]"},
    {"checkpoint-every", "N", "steps between checkpoints [1000]"},
    {"", NULL, "Images"},
    {"random-crop", NULL, "another crop of an image in every epoch"},
    {"mirror", NULL, "half of the images mirrored, others in every epoch"},
    {"validation", "X", "share of the training images that are held out and evaluated instead [0]"},
    {"cache", "FILE", "FILE.train and FILE.test with decoded images, made where they are missing"},
    {"truth", "FILE",
     "classes of the images of a flat val/; also the ILSVRC development kit's, with meta.mat next to it [val.txt]"},
    {"decode-threads", "N", "threads that decode images while others train [half of the cores]"},
    FIT_FLAGS,
    {"init-scale", "X", "[0.1]"},
    {0},
};

static const cli_verb paper_rosenbrock = {
    .name = "paper rosenbrock",
    .usage = "psgd paper rosenbrock [--out DIR] [--search]",
    .summary = "Section 7.1, figure 1: Rosenbrock's function from (-1, 1)",
    .flags = rosenbrock_flags,
    .more = "Gradient descent, momentum, Nesterov, and PSGD of both types on tri, 21 seeds. Writes rosenbrock.csv,\n"
            ".svg and .png, a log for each method, and prints medians and quartiles. A second.\n",
    .example = "  psgd paper rosenbrock --out figure1\n",
    .run = run_rosenbrock,
};

static const cli_verb paper_wikitext2 = {
    .name = "paper wikitext2",
    .usage = "psgd paper wikitext2 [--data DIR] [--methods A,B] [options]",
    .summary = "Section 7.3, figure 3: an LSTM language model on any text",
    .flags = wikitext2_flags,
    .more =
        "Each method is a run in a folder of its own; the same command resumes runs that were stopped. psgd report\n"
        "draws them, psgd generate writes text with them. Methods: sgd, momentum, adam, sparse-adam, fisher- and\n"
        "newton- with diag, scan or scaw, newton-scan-10 and newton-scaw-10 (a fit every 10th step).\n",
    .example =
        "  psgd paper wikitext2 --methods sgd,newton-scan-10 --steps 40 --hidden 16 --eval-batches 20 --out language\n"
        "  psgd report language -o language/report.html\n",
    .run = run_wikitext2,
};

static const cli_verb paper_imagenet = {
    .name = "paper imagenet",
    .usage = "psgd paper imagenet --data DIR [--size full|small] [--methods A,B] [options]",
    .summary = "Section 7.2, figure 2: AlexNet on JPEGs in class folders",
    .flags = imagenet_flags,
    .more =
        "JPEGs are in train/CLASS/ and val/CLASS/, or in a flat val/ with a file that says which class each image\n"
        "has. Step size mu for the first half of the epochs and mu/10 for the second; top-1 and top-5 with one\n"
        "crop. The same command resumes runs that were stopped; a report page is written at the end. Methods: adam,\n"
        "batch-norm, momentum, fisher-scan, newton-scan, fisher-diag, newton-diag and newton-scan-10 (a fit every\n"
        "10th step).\n",
    .run = run_imagenet,
};

static const cli_verb *const topics[] = {&paper_rosenbrock, &paper_wikitext2, &paper_imagenet, NULL};

const cli_verb verb_paper = {
    .name = "paper",
    .usage = "psgd paper rosenbrock|wikitext2|imagenet [options]",
    .summary = "Reproduce an experiment of the paper",
    .ranks = true,
    .topics = topics,
    .example = "  psgd paper rosenbrock --out figure1\n",
    .run = run,
};
