/* From a checkpoint, and the settings that are given now, to a run that can continue. */
#include "train/checkpoint.h"
#include "train/settings.h"
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The settings of the checkpoint, followed by those given now. */
static psgd_status recreate(const checkpoint *file, const train_ranks *ranks, int count, const train_setting *settings,
                            trainer **created)
{
    train_setting all[TRAIN_MAX_SETTINGS];
    int used = 0;
    for (int k = 0; k < file->setting_count; k++) {
        if (psgd__setting_is_replaced(&file->settings[k], count, settings)) continue;
        all[used] = file->settings[k];
        /* The run continues in the folder where the checkpoint was found: it may have been moved, or come from another
         * machine. */
        if (!strcmp(all[used].name, "out")) all[used].value = file->folder;
        used++;
    }
    for (int i = 0; i < count && used < TRAIN_MAX_SETTINGS; i++) all[used++] = settings[i];
    return psgd__trainer_create(file->context, ranks, used, all, created);
}

/* Options that a state belongs to: the micro-batches that the run began with, as do its bits, and its method. */
static psgd_status check_same_state(const checkpoint *file, int count, const train_setting *settings)
{
    static const train_setting of[] = {{"micro-batches", "1"}, {"optimizer", "psgd-newton"}};
    for (int i = 0; i < 2; i++) {
        const char *was = psgd__setting_find(file->setting_count, file->settings, of[i].name);
        const char *is = psgd__setting_find(count, settings, of[i].name);
        if (!was) was = of[i].value;
        if (!is || !strcmp(was, is)) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT, "the run in %s has --%s %s and cannot resume with %s; leave out --%s",
                          file->folder, of[i].name, was, is, of[i].name);
    }
    return PSGD_OK;
}

/* However they are written. */
static bool is_same_folder(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* Another folder may hold another run, which checkpoints and records would overwrite. */
static psgd_status check_same_folder(const checkpoint *file, int count, const train_setting *settings)
{
    const char *out = psgd__setting_find(count, settings, "out");
    if (!out || is_same_folder(out, file->folder)) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT,
                      "the run in %s resumes where it lies, not in %s; leave out --out, and copy the folder first to "
                      "keep the run as it is",
                      file->folder, out);
}

psgd_status psgd__trainer_resume(const psgd_context *context, const train_ranks *ranks, const char *folder, int count,
                                 const train_setting *settings, trainer **created)
{
    checkpoint file;
    trainer *self = NULL;
    psgd_status status = psgd__checkpoint_open(context, folder, &file);
    if (status == PSGD_OK) status = check_same_state(&file, count, settings);
    if (status == PSGD_OK) status = check_same_folder(&file, count, settings);
    status = psgd_comm_agree(ranks && ranks->all ? ranks->all : ranks ? ranks->comm : NULL, status);
    if (status == PSGD_OK) status = recreate(&file, ranks, count, settings, &self);
    if (status == PSGD_ERR_IO && !psgd__setting_find(count, settings, "data")) {
        char why[512];
        snprintf(why, sizeof why, "%s", psgd_last_error());
        status = psgd__fail(PSGD_ERR_IO, "%s; --data says where the data of the run in %s are now", why, folder);
    }
    for (int i = 0; status == PSGD_OK && i < count; i++) {
        const char *was = psgd__setting_find(file.setting_count, file.settings, settings[i].name);
        self->changed |= !was || strcmp(was, settings[i].value) != 0;
    }
    if (status == PSGD_OK) self->data_given = psgd__setting_find(count, settings, "data") != NULL;
    if (status == PSGD_OK) status = psgd__checkpoint_restore(&file, self);
    psgd__checkpoint_close(&file);
    if (status == PSGD_OK) {
        *created = self;
    } else {
        psgd__trainer_free(self);
    }
    return status;
}
