#include "train/compare.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "train/checkpoint.h"
#include "train/settings.h"

psgd_status psgd__compare_set(compare_list *to, const char *name, const char *value)
{
    int i = 0;
    while (i < to->count && strcmp(to->list[i].name, name) != 0) i++;
    if (i == TRAIN_MAX_SETTINGS - 1) return psgd__fail(PSGD_ERR_ARGUMENT, "too many settings");
    to->list[i] = (train_setting){name, value};
    to->count += i == to->count;
    return PSGD_OK;
}

/* Whatever their order, and wherever the folder lies. */
static psgd_status check_same(const checkpoint *file, const compare_list *now)
{
    for (int i = 0; i < now->count + file->setting_count; i++) {
        const char *name = i < now->count ? now->list[i].name : file->settings[i - now->count].name;
        const char *is = psgd__setting_find(now->count, now->list, name);
        const char *was = psgd__setting_find(file->setting_count, file->settings, name);
        if (!strcmp(name, "out") || (is && was && !strcmp(is, was))) continue;
        return psgd__fail(
            PSGD_ERR_ARGUMENT,
            "the run in %s was made with other settings: %s %s; give the comparison another folder (--out)",
            file->folder, name, was ? was : "was not given");
    }
    return PSGD_OK;
}

static psgd_status is_finished(const psgd_context *context, const char *folder, bool *finished)
{
    metrics_run *run;
    PSGD_TRY(psgd__metrics_read(context, folder, &run));
    *finished = run->finished;
    psgd__metrics_free(run);
    return PSGD_OK;
}

psgd_status psgd__compare_open(const psgd_context *context, const compare_list *settings, const char *folder,
                               trainer **opened)
{
    char path[4096];
    checkpoint file;
    bool finished = false;
    *opened = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, CHECKPOINT_FILE);
    if (access(path, F_OK) != 0) return psgd__trainer_create(context, NULL, settings->count, settings->list, opened);
    psgd_status status = psgd__checkpoint_open(context, folder, &file);
    if (status == PSGD_OK) status = check_same(&file, settings);
    psgd__checkpoint_close(&file);
    if (status == PSGD_OK) status = is_finished(context, folder, &finished);
    if (status == PSGD_OK) status = psgd__trainer_resume(context, NULL, folder, 0, NULL, opened);
    if (status != PSGD_OK || !finished) return status;
    psgd__trainer_free(*opened); /* its data are still the same */
    *opened = NULL;
    return PSGD_OK;
}
