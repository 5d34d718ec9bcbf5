#include "paper/presets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/checkpoint.h"

#define LANGUAGE_FIT "optimizer=psgd;lr=0.1;defaults=paper;step=0.01;damping=0;init-scale=1;clip=100;criterion="

/* lambda^2 = 1e-12 under the root, as in sections 6.1 and 7.3. */
#define LAMBDA "epsilon=1e-6;epsilon-inside=yes"

/* Section 7.3 and Appendix A. In the matrix of the words the triangle of scaw is on the side of the features. The
 * script that the paper builds on clips gradients, so what enters the momentum is clipped. */
static const paper_method language_methods[] = {
    {"sgd", "optimizer=sgd;lr=20;clip-gradient=0.25"},
    {"momentum", "optimizer=momentum;lr=1;momentum=0.9;clip-gradient=0.25"},
    {"adam", "optimizer=adam;lr=0.005;" LAMBDA},
    {"sparse-adam", "optimizer=sparse-adam;lr=0.005;" LAMBDA},
    {"fisher-diag", LANGUAGE_FIT "fisher;group=diag"},
    {"fisher-scan", LANGUAGE_FIT "fisher;group=scan"},
    {"fisher-scaw", LANGUAGE_FIT "fisher;group=scaw"},
    {"newton-diag", LANGUAGE_FIT "newton;group=diag"},
    {"newton-scan", LANGUAGE_FIT "newton;group=scan"},
    {"newton-scaw", LANGUAGE_FIT "newton;group=scaw"},
    {"newton-scan-10", LANGUAGE_FIT "newton;group=scan;update-every=10"},
    {"newton-scaw-10", LANGUAGE_FIT "newton;group=scaw;update-every=10"},
    {0},
};

#define IMAGENET_FISHER "optimizer=psgd-fisher;lr=5e-5;defaults=paper;step=0.01;init-scale=0.1;damping=0.001;group="
#define IMAGENET_NEWTON "optimizer=psgd-newton;lr=0.01;defaults=paper;step=0.01;init-scale=0.1;group="

/* Section 7.2. It names no lambda for Adam. */
static const paper_method imagenet_methods[] = {
    {"adam", "optimizer=adam;lr=5e-5;" LAMBDA},
    {"batch-norm", "optimizer=momentum;lr=0.002;momentum=0.9;normalise=yes"},
    {"momentum", "optimizer=momentum;lr=0.002;momentum=0.9"},
    {"fisher-scan", IMAGENET_FISHER "scan"},
    {"newton-scan", IMAGENET_NEWTON "scan"},
    {"fisher-diag", IMAGENET_FISHER "diag"},
    {"newton-diag", IMAGENET_NEWTON "diag"},
    {"newton-scan-10", IMAGENET_NEWTON "scan;update-every=10"},
    {0},
};

static const paper_experiment experiments[] = {
    {.name = "wikitext2",
     .source = "text",
     .methods = language_methods,
     .standard = "sgd,fisher-scan,newton-scan-10,newton-scaw-10",
     .common = "model=lm;layers=2;batch=20;back=35;seed=1;log-every=20;checkpoint-every=500;lr-schedule=plateau",
     .variant = {"task=wikitext2;hidden=200;dropout=0.2;epochs=1",
                 "task=synthetic language;hidden=50;dropout=0;epochs=2"},
     .flags = {"epochs", "steps", "lr", "dropout", "embedding-dropout", "hidden", "batch", "micro-batches", "back",
               "untied", "seed", "log-every", "checkpoint-every", "eval-batches"},
     .may_change = {"data"}, /* another text is detected by its vocabulary */
     .columns = {{"valid ppl", "valid_perplexity", 12, 2, 0, 1},
                 {"test ppl", "test_perplexity", 12, 2, 0, 1},
                 {"test gap", "test_gap", 10, 4, 0, 1}}},
    {.name = "imagenet",
     .source = "images",
     .methods = imagenet_methods,
     .standard = "adam,batch-norm,momentum,fisher-scan,newton-scan,fisher-diag,newton-diag",
     .common = "model=alexnet;subtract-mean=yes;batch=128;epochs=40;lr-factor=0.1;l2=5e-4;dropout=0.5;seed=1;"
               "log-every=20;checkpoint-every=1000",
     .variant = {"task=AlexNet;size=full;height=227;width=227;resize=256",
                 "task=AlexNet, small;size=small;height=32;width=32;resize=32"},
     .flags = {"epochs", "steps", "lr", "dropout", "batch", "micro-batches", "seed", "log-every", "checkpoint-every",
               "cache", "truth", "decode-threads", "random-crop", "mirror", "validation", "eval-batches"},
     .columns = {{"test loss", "test_loss", 10, 4, 0, 1},
                 {"top-1 %", "test_error", 8, 2, 100, -100},
                 {"top-5 %", "test_top5_error", 8, 2, 100, -100},
                 {"waited s", "waited_seconds", 9, 1, 0, 1}},
     .report = true},
};

const paper_experiment *psgd__paper_find(const char *name)
{
    for (size_t i = 0; i < sizeof experiments / sizeof experiments[0]; i++) {
        if (!strcmp(experiments[i].name, name)) return &experiments[i];
    }
    return NULL;
}

typedef struct settings {
    train_setting list[TRAIN_MAX_SETTINGS];
    int count;
    char preset[1024], epochs[32]; /* of the experiment and the method, cut into names and values; half of a run's */
    size_t used;
} settings;

static train_setting *find(settings *in, const char *name)
{
    for (int i = 0; i < in->count; i++) {
        if (!strcmp(in->list[i].name, name)) return &in->list[i];
    }
    return NULL;
}

/* A later setting of the same name takes the place of an earlier one. */
static void set(settings *to, const char *name, const char *value)
{
    train_setting *old = find(to, name);
    if (old) old->value = value;
    if (!old && to->count < TRAIN_MAX_SETTINGS) to->list[to->count++] = (train_setting){name, value};
}

/* "name=value;name=value" */
static void set_preset(settings *to, const char *preset)
{
    char *at = to->preset + to->used, *next, *value;
    snprintf(at, sizeof to->preset - to->used, "%s", preset);
    to->used += strlen(at) + 1;
    for (char *name = strtok_r(at, ";", &next); name; name = strtok_r(NULL, ";", &next)) {
        value = strchr(name, '=');
        *value = 0;
        set(to, name, value + 1);
    }
}

static void collect(const paper_experiment *experiment, const paper_choice *choice, const paper_method *method,
                    const char *folder, settings *to)
{
    set_preset(to, experiment->common);
    set_preset(to, experiment->variant[choice->variant]);
    set_preset(to, method->preset);
    set(to, "out", folder);
    set(to, "name", method->name);
    for (int i = 0; i < choice->given_count; i++) set(to, choice->given[i].name, choice->given[i].value);
    bool fits = find(to, "group") != NULL;
    for (int i = 0; fits && i < choice->fit_count; i++) set(to, choice->fit[i].name, choice->fit[i].value);
    if (!find(to, "lr-factor")) return;
    /* mu for the first half of the epochs, mu times lr-factor for the second */
    snprintf(to->epochs, sizeof to->epochs, "%lld", (atoll(find(to, "epochs")->value) + 1) / 2);
    set(to, "lr-epochs", to->epochs);
}

static bool may_change(const paper_experiment *experiment, const char *name)
{
    static const char *const names[] = {"epochs",           "steps",     "lr-epochs",
                                        "decode-threads",   "cache",     "out",
                                        "checkpoint-every", "log-every", "eval-batches"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!strcmp(names[i], name)) return true;
    }
    for (int i = 0; experiment->may_change[i]; i++) {
        if (!strcmp(experiment->may_change[i], name)) return true;
    }
    return false;
}

/* Every setting of the checkpoint has the value that it would have now. */
static psgd_status check_same(const paper_experiment *experiment, const checkpoint *file, settings *now)
{
    int unmatched = 0;
    for (int i = 0; i < now->count; i++) unmatched += !may_change(experiment, now->list[i].name);
    for (int i = 0; i < file->setting_count; i++) {
        const train_setting *was = &file->settings[i], *is = find(now, was->name);
        if (may_change(experiment, was->name)) continue;
        unmatched--;
        if (is && !strcmp(is->value, was->value)) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT, "the run in %s was made with %s %s, not %s; give it another folder",
                          file->folder, was->name, was->value, is ? is->value : "its default");
    }
    if (unmatched == 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "the run in %s was made with fewer settings; give it another folder",
                      file->folder);
}

psgd_status psgd__paper_open(const psgd_context *context, psgd_comm *comm, const paper_experiment *experiment,
                             const paper_choice *choice, const paper_method *method, const char *folder,
                             trainer **opened)
{
    char path[4096];
    settings all = {.count = 0}, changed = {.count = 0};
    const train_ranks ranks = {.comm = comm};
    checkpoint file;
    collect(experiment, choice, method, folder, &all);
    snprintf(path, sizeof path, "%s/%s", folder, CHECKPOINT_FILE);
    if (access(path, F_OK) != 0) return psgd__trainer_create(context, &ranks, all.count, all.list, opened);
    psgd_status status = psgd__checkpoint_open(context, folder, &file);
    if (status == PSGD_OK) status = check_same(experiment, &file, &all);
    psgd__checkpoint_close(&file);
    PSGD_TRY(status);
    for (int i = 0; i < all.count; i++) {
        if (may_change(experiment, all.list[i].name)) set(&changed, all.list[i].name, all.list[i].value);
    }
    return psgd__trainer_resume(context, &ranks, folder, changed.count, changed.list, opened);
}
