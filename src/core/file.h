/* Files that are replaced atomically: written without a name, or under a temporary one in the same folder, synced, then
 * renamed. Links are followed, permissions kept; what is not a regular file (a terminal, a pipe, a device) is written
 * to directly. */
#ifndef PSGD_CORE_FILE_H
#define PSGD_CORE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"
#include <psgd/context.h>

#define FILE_PARTIAL ".partial-" /* between the name of a file and a random suffix: its temporary name */
enum { FILE_PARTIAL_ROOM = 32 };

typedef struct file_writer {
    const psgd_context *context;
    char *path, *partial; /* the final name, links resolved, and the temporary one */
    FILE *stream;
    bool through;  /* not a regular file */
    bool named;    /* there is a file of the name partial */
    bool finished; /* everything is on disk */
} file_writer;

/* Opens the temporary file. On failure there is nothing to abandon. */
psgd_status psgd__file_create(const psgd_context *context, const char *path, file_writer *file);

/* After a failure only psgd__file_abandon is allowed. */
psgd_status psgd__file_write(file_writer *file, const void *data, int64_t bytes);

/* Syncs everything to disk, not yet under its name. */
psgd_status psgd__file_finish(file_writer *file);

/* Finishes if need be and gives the file its name. Closes the writer, also on failure. */
psgd_status psgd__file_publish(file_writer *file);

/* Removes the temporary file. Does nothing to a writer that is zero or closed. */
void psgd__file_abandon(file_writer *file);

/* Opens a regular file to read; folders, pipes and devices get a sentence. */
psgd_status psgd__file_open(const char *path, int *handle, int64_t *bytes);

/* All of a regular file. On failure *bytes is NULL. */
psgd_status psgd__file_read_whole(const psgd_context *context, const char *path, unsigned char **bytes, int64_t *count);

/* Creates a folder and its missing parents; *created is how many that were, for psgd__folder_remove. */
psgd_status psgd__folder_create(const char *path, int *created);

/* Removes the folders that psgd__folder_create created, if they are empty. */
void psgd__folder_remove(const char *path, int created);

/* Keeps other processes from writing to a folder, until psgd__folder_unlock or the end of this one; *lock is -1 where
 * this fails. On file systems without locks it does nothing. */
psgd_status psgd__folder_lock(const char *path, int *lock);
void psgd__folder_unlock(int lock); /* -1: does nothing */

/* Removes the temporary files that killed processes have left in a folder that nobody else writes to. */
void psgd__folder_sweep(const char *path);

#endif
