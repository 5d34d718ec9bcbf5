/* Files that are replaced atomically: written under a temporary name in the same folder, synced, then renamed. */
#ifndef PSGD_CORE_FILE_H
#define PSGD_CORE_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "core/status.h"
#include <psgd/context.h>

typedef struct file_writer {
    const psgd_context *context;
    char *path, *partial; /* the final and the temporary name */
    FILE *stream;         /* NULL once finished */
} file_writer;

/* Opens the temporary file. On failure there is nothing to abandon. */
psgd_status psgd__file_create(const psgd_context *context, const char *path, file_writer *file);

/* After a failure only psgd__file_abandon is allowed. */
psgd_status psgd__file_write(file_writer *file, const void *data, int64_t bytes);

/* Syncs everything to disk, still under the temporary name. */
psgd_status psgd__file_finish(file_writer *file);

/* Finishes if need be and renames the file to path. Closes the writer, also on failure. */
psgd_status psgd__file_publish(file_writer *file);

/* Removes the temporary file. Does nothing to a writer that is zero or closed. */
void psgd__file_abandon(file_writer *file);

/* Creates a folder and its missing parents; *created is how many that were, for psgd__folder_remove. */
psgd_status psgd__folder_create(const char *path, int *created);

/* Removes the folders that psgd__folder_create created, if they are empty. */
void psgd__folder_remove(const char *path, int created);

#endif
