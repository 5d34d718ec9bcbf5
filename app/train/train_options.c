#include "train/train.h"

#include <math.h>
#include <stddef.h>

static const char *const products[] = {"exact", "difference", NULL};
static const char *const dtypes[] = {"f32", "f64", NULL};

#define FIELD(name) offsetof(train_settings, name)

const option_row psgd__train_options[] = {
    {"data", OPTION_TEXT, FIELD(data), NULL, .help = "where samples, or the text, come from: see below"},
    {"optimizer", OPTION_TEXT, FIELD(optimizer), "psgd-newton",
     .help = "psgd-newton, psgd-fisher, or a method of psgd minimize"},
    {"out", OPTION_TEXT, FIELD(out), NULL, .help = "folder of the run: metrics, checkpoint, weights; created"},
    {"batch", OPTION_COUNT, FIELD(batch), "64", 1, 1e9,
     .help = "samples of a step; lm: columns of text, 20 unless given"},
    {"micro-batches", OPTION_COUNT, FIELD(micro_batches), "1", 1, 1e6,
     .help = "parts of a batch, whose gradients are added in a fixed order: the same bits on any number of ranks that "
             "this is a power of two times; 8 under mpirun unless given"},
    {"epochs", OPTION_COUNT, FIELD(epochs), "10", 1, 1e9,
     .help = "passes over the training samples; with steps alone as many as these take"},
    {"steps", OPTION_COUNT, FIELD(steps), "0", 0, 1e15, .help = "stop after so many steps; 0: after the epochs"},
    {"seed", OPTION_COUNT, FIELD(seed), "0", 0, 9e15, .help = "of the start, the order, masks and v"},
    {"hv", OPTION_CHOICE, FIELD(hv), "exact", .choices = products,
     .help = "Hessian-vector products: exact, or finite differences of gradients"},
    {"hv-batch", OPTION_COUNT, FIELD(hv_batch), "0", 0, 1e9,
     .help = "samples of the batch that Hv is taken on; 0: all"},
    {"lr-end", OPTION_NUMBER, FIELD(lr_end), "0", 0, HUGE_VAL,
     .help = "lr goes to this in the last epoch, by a constant factor an epoch; 0: as lr-schedule says"},
    {"log-every", OPTION_COUNT, FIELD(log_every), "50", 1, 1e15, .help = "steps between records of the training loss"},
    {"checkpoint-every", OPTION_COUNT, FIELD(checkpoint_every), "0", 0, 1e15,
     .help = "steps between checkpoints; 0: one an epoch, at most one a second"},
    {"eval-batches", OPTION_COUNT, FIELD(eval_batches), "0", 0, 1e15,
     .help = "evaluate on so many batches of a split; 0: on all of it"},
    {"dtype", OPTION_CHOICE, FIELD(dtype), "f32", .choices = dtypes, .help = "floating-point type"},
    {"samples", OPTION_COUNT, FIELD(samples), "0", 0, 1e9,
     .help = "training samples that a synthetic source makes, or that are used of a file; 0: its own, or all"},
    {"height", OPTION_COUNT, FIELD(height), "0", 0, 1e5, .help = "of images from JPEGs; 0: 32"},
    {"width", OPTION_COUNT, FIELD(width), "0", 0, 1e5, .help = "of images from JPEGs; 0: 32"},
    {"holdout", OPTION_NUMBER, FIELD(holdout), "0.1", 0, 1, .below = true,
     .help = "share of samples for the test, where a source has no test files"},
    {"regression", OPTION_FLAG, FIELD(regression), "no",
     .help = "csv, npy and idx: labels are values to predict, not classes, even where all are 0, 1, 2, ..."},
    {"validation", OPTION_NUMBER, FIELD(validation), "0", 0, 1, .below = true,
     .help = "share of the training samples that schedules and psgd compare look at instead of training on them"},
    {"lr-epochs", OPTION_COUNT, FIELD(lr_epochs), "0", 0, 1e9,
     .help = "times lr-factor every so many epochs; 0: as lr-schedule says"},
    {"resize", OPTION_COUNT, FIELD(resize), "0", 0, 1e5, .help = "short side of JPEGs before the crop; 0: the crop's"},
    {"subtract-mean", OPTION_FLAG, FIELD(subtract_mean), "no",
     .help = "JPEGs: pixels from 0 to 255 minus the mean training image, not from 0 to 1"},
    {"random-crop", OPTION_FLAG, FIELD(random_crop), "no", .help = "JPEGs: another crop of an image in every epoch"},
    {"mirror", OPTION_FLAG, FIELD(mirror), "no", .help = "JPEGs: half of the images mirrored, others in every epoch"},
    {"decode-threads", OPTION_COUNT, FIELD(decode_threads), "0", 0, 64,
     .help = "that decode JPEGs while others train; 0: half of the cores"},
    {"cache", OPTION_TEXT, FIELD(cache), NULL,
     .help = "JPEGs: FILE.train and FILE.test with decoded images, made where they are missing"},
    {"truth", OPTION_TEXT, FIELD(truth), NULL,
     .help = "JPEGs: file with the classes of test images that are not in class folders [val.txt]"},
    {"name", OPTION_TEXT, FIELD(name), NULL, .help = "of the run in reports [its folder]"},
    {"task", OPTION_TEXT, FIELD(task), NULL, .help = "of the run in reports [the model]"},
};
const int psgd__train_option_count = sizeof psgd__train_options / sizeof psgd__train_options[0];
