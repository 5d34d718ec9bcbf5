/* A run in one file, replaced atomically: a head, a table of named sections, the sections, a checksum. */
#ifndef PSGD_TRAIN_CHECKPOINT_H
#define PSGD_TRAIN_CHECKPOINT_H

#include "train/trainer.h"

/* An open checkpoint, whole and undamaged. */
typedef struct checkpoint {
    const psgd_context *context;
    unsigned char *bytes;
    const char *folder;
    train_setting settings[TRAIN_MAX_SETTINGS];
    int setting_count;
    train_progress now;
} checkpoint;

psgd_status psgd__checkpoint_write(const trainer *self);

/* PSGD_ERR_IO where there is none; a damaged one, and one of another version, gets a sentence. */
psgd_status psgd__checkpoint_open(const psgd_context *context, const char *folder, checkpoint *file);
void psgd__checkpoint_close(checkpoint *file); /* also where open has failed */

/* A section by name, or NULL. */
void *psgd__checkpoint_section(const checkpoint *file, const char *name, int64_t *bytes);

/* A section of numbers that can be used where they are; NULL and 0 bytes where there is none. Files of ours have all of
 * them in places that suit their dtype. */
psgd_status psgd__checkpoint_array(const checkpoint *file, const char *name, psgd_dtype dtype, const void **data,
                                   int64_t *bytes);

/* Into a run that was created with the settings of the checkpoint. */
psgd_status psgd__checkpoint_restore(const checkpoint *file, trainer *self);

#endif
