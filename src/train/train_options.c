#include "train/train.h"

#include <math.h>
#include <stddef.h>

static const char *const products[] = {"exact", "difference", NULL};
static const char *const dtypes[] = {"f32", "f64", NULL};

#define FIELD(name) offsetof(train_settings, name)

const option_row psgd__train_options[] = {
    {"data", OPTION_TEXT, FIELD(data), NULL, .help = "where samples come from: see below"},
    {"optimizer", OPTION_TEXT, FIELD(optimizer), "psgd-newton",
     .help = "psgd-newton, psgd-fisher, or a method of psgd minimize"},
    {"out", OPTION_TEXT, FIELD(out), NULL, .help = "folder of the run: metrics, checkpoint, weights; created"},
    {"batch", OPTION_COUNT, FIELD(batch), "64", 1, 1e9, .help = "samples of a step"},
    {"epochs", OPTION_COUNT, FIELD(epochs), "10", 1, 1e9, .help = "passes over the training samples"},
    {"steps", OPTION_COUNT, FIELD(steps), "0", 0, 1e15, .help = "stop after so many steps; 0: after the epochs"},
    {"seed", OPTION_COUNT, FIELD(seed), "0", 0, 9e15, .help = "of the start, the order, masks and v"},
    {"hv", OPTION_CHOICE, FIELD(hv), "exact", .choices = products,
     .help = "Hessian-vector products exact, or by differences of gradients"},
    {"hv-batch", OPTION_COUNT, FIELD(hv_batch), "0", 0, 1e9,
     .help = "samples of the batch that Hv is taken on; 0: all"},
    {"lr-end", OPTION_NUMBER, FIELD(lr_end), "0", 0, HUGE_VAL,
     .help = "lr goes to this in the last epoch, by a constant factor an epoch; 0: as lr-schedule says"},
    {"log-every", OPTION_COUNT, FIELD(log_every), "50", 1, 1e15, .help = "steps between records of the training loss"},
    {"checkpoint-every", OPTION_COUNT, FIELD(checkpoint_every), "0", 0, 1e15,
     .help = "steps between checkpoints; 0: one an epoch"},
    {"dtype", OPTION_CHOICE, FIELD(dtype), "f32", .choices = dtypes, .help = "number type"},
    {"samples", OPTION_COUNT, FIELD(samples), "0", 0, 1e9,
     .help = "training samples of a synthetic source; 0: its own"},
    {"height", OPTION_COUNT, FIELD(height), "0", 0, 1e5, .help = "of pictures from JPEGs [32]"},
    {"width", OPTION_COUNT, FIELD(width), "0", 0, 1e5, .help = "of pictures from JPEGs [32]"},
    {"holdout", OPTION_NUMBER, FIELD(holdout), "0.1", 0, 1, .below = true,
     .help = "share of samples for the test, where a source has no test files"},
};
const int psgd__train_option_count = sizeof psgd__train_options / sizeof psgd__train_options[0];
