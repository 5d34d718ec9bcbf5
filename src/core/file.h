/* Files that are either whole or not there: written under another name beside their place, synced, then renamed. */
#ifndef PSGD_CORE_FILE_H
#define PSGD_CORE_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "core/status.h"
#include <psgd/context.h>

typedef struct file_writer {
    const psgd_context *context;
    char *path, *partial; /* where it will stand, where it is written */
    FILE *stream;         /* NULL once finished */
} file_writer;

/* Opens a new file beside path. On failure there is nothing to abandon. */
psgd_status psgd__file_create(const psgd_context *context, const char *path, file_writer *file);

/* Once a write has failed, abandon is all that is left to do. */
psgd_status psgd__file_write(file_writer *file, const void *data, int64_t bytes);

/* Everything is on the disk, still under the other name. */
psgd_status psgd__file_finish(file_writer *file);

/* Finishes where that has not been done and takes the place of path. The writer is done with, also on failure. */
psgd_status psgd__file_publish(file_writer *file);

/* Leaves nothing behind. Harmless on a writer that is zero or done with. */
void psgd__file_abandon(file_writer *file);

/* Creates a folder and what is missing above it; *created is how many that were, for psgd__folder_remove. */
psgd_status psgd__folder_create(const char *path, int *created);

/* Takes back what psgd__folder_create made, as far as it is empty. */
void psgd__folder_remove(const char *path, int created);

#endif
