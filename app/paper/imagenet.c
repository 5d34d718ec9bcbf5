#include "paper/imagenet.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "train/trainer.h"

#define FIT(criterion, spec, rate)                                                                                     \
    {"optimizer", criterion}, {"group", spec}, {"lr", rate}, {"step", "0.01"},                                         \
    {                                                                                                                  \
        "init-scale", "0.1"                                                                                            \
    }

static const imagenet_method methods[] = {
    {"adam", {{"optimizer", "adam"}, {"lr", "5e-5"}}},
    {"batch-norm", {{"optimizer", "momentum"}, {"lr", "0.002"}, {"momentum", "0.9"}, {"normalise", "yes"}}},
    {"momentum", {{"optimizer", "momentum"}, {"lr", "0.002"}, {"momentum", "0.9"}}},
    {"fisher-scan", {FIT("psgd-fisher", "scan", "5e-5"), {"damping", "0.001"}}},
    {"newton-scan", {FIT("psgd-newton", "scan", "0.01")}},
    {"fisher-diag", {FIT("psgd-fisher", "diag", "5e-5"), {"damping", "0.001"}}},
    {"newton-diag", {FIT("psgd-newton", "diag", "0.01")}},
    {"newton-scan-10", {FIT("psgd-newton", "scan", "0.01"), {"update-every", "10"}}},
};

enum { METHODS = sizeof methods / sizeof methods[0] };

const imagenet_method *psgd__imagenet_method(int index)
{
    return index >= 0 && index < METHODS ? &methods[index] : NULL;
}

bool psgd__imagenet_default(int index)
{
    return index < METHODS - 1;
}

/* A later setting of the same name takes the place of an earlier one. */
static void set(train_setting *list, int *count, const char *name, const char *value)
{
    for (int i = 0; i < *count; i++) {
        if (strcmp(list[i].name, name) != 0) continue;
        list[i].value = value;
        return;
    }
    if (*count < TRAIN_MAX_SETTINGS) list[(*count)++] = (train_setting){name, value};
}

static bool may_change(const char *name)
{
    static const char *const names[] = {"epochs", "steps", "lr-epochs",       "decode-threads",
                                        "cache",  "out",   "checkpoint-every"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!strcmp(names[i], name)) return true;
    }
    return false;
}

static const char *value_of(const train_setting *list, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(list[i].name, name)) return list[i].value;
    }
    return NULL;
}

/* Every setting of the checkpoint has the value that it would have now. */
static psgd_status check_same(const psgd_context *context, const char *folder, const train_setting *list, int count)
{
    char *chars;
    PSGD_TRY(psgd__checkpoint_settings(context, folder, &chars));
    psgd_status status = PSGD_OK;
    int found = 0, expected = 0;
    for (int i = 0; i < count; i++) expected += !may_change(list[i].name);
    for (char *line = chars, *next; status == PSGD_OK && *line; line = next) {
        char *equals = strchr(line, '='), *end = strchr(line, '\n');
        if (!equals || !end || equals > end) break;
        next = end + 1;
        *equals = *end = 0;
        if (may_change(line)) continue;
        const char *now = value_of(list, count, line);
        found++;
        if (now && !strcmp(now, equals + 1)) continue;
        status = psgd__fail(PSGD_ERR_ARGUMENT, "the run in %s was made with %s %s, not %s; give it another folder",
                            folder, line, equals + 1, now ? now : "its default");
    }
    if (status == PSGD_OK && found != expected) {
        status = psgd__fail(PSGD_ERR_ARGUMENT, "the run in %s was made with fewer settings; give it another folder",
                            folder);
    }
    psgd__free(context, chars);
    return status;
}

psgd_status psgd__imagenet_open(const psgd_context *context, const imagenet_settings *settings,
                                const imagenet_method *method, const char *folder, trainer **opened)
{
    train_setting list[TRAIN_MAX_SETTINGS], changed[8];
    int count = 0, changes = 0;
    char data[4096], epochs[32], half[32], path[4096];
    const char *side = settings->small ? "32" : "227";
    snprintf(data, sizeof data, "images:%s", settings->data);
    snprintf(epochs, sizeof epochs, "%lld", (long long)settings->epochs);
    snprintf(half, sizeof half, "%lld", (long long)((settings->epochs + 1) / 2));
    const train_setting common[] = {
        {"model", "alexnet"},
        {"data", data},
        {"out", folder},
        {"name", method->name},
        {"task", settings->small ? "AlexNet, small" : "AlexNet"},
        {"size", settings->small ? "small" : "full"},
        {"height", side},
        {"width", side},
        {"resize", settings->small ? "32" : "256"},
        {"subtract-mean", "yes"},
        {"batch", "128"},
        {"epochs", epochs},
        {"lr-epochs", half},
        {"lr-factor", "0.1"},
        {"l2", "5e-4"},
        {"dropout", "0.5"},
        {"log-every", "20"},
        {"checkpoint-every", "1000"},
    };
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) set(list, &count, common[i].name, common[i].value);
    for (int i = 0; i < IMAGENET_OPTIONS && method->options[i].name; i++) {
        set(list, &count, method->options[i].name, method->options[i].value);
    }
    for (int i = 0; i < settings->more_count; i++) set(list, &count, settings->more[i].name, settings->more[i].value);
    bool fits = value_of(list, count, "group") != NULL;
    for (int i = 0; fits && i < settings->fit_count; i++) {
        set(list, &count, settings->fit[i].name, settings->fit[i].value);
    }
    snprintf(path, sizeof path, "%s/%s", folder, CHECKPOINT_FILE);
    if (access(path, F_OK) != 0) return psgd__trainer_create(context, count, list, opened);
    PSGD_TRY(check_same(context, folder, list, count));
    for (int i = 0; i < count; i++) {
        if (may_change(list[i].name)) changed[changes++] = list[i];
    }
    return psgd__trainer_resume(context, folder, changes, changed, opened);
}
