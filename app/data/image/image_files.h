/* Which image files exist, and of which class each is. */
#ifndef PSGD_DATA_IMAGE_IMAGE_FILES_H
#define PSGD_DATA_IMAGE_IMAGE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "data/image/devkit.h"
#include <psgd/context.h>

typedef struct image_file {
    char *path;
    int label;
} image_file;

typedef struct image_files {
    const psgd_context *context;
    image_file *file;
    int64_t count, room;
    char **class_name; /* [classes], in the order of their names */
    int64_t classes, class_room;
    devkit kit; /* what the numbers of a ground truth mean, where it is a development kit's */
} image_files;

enum { PATH_LONGEST = 4096 };

/* path <- folder/name; true where it exists. */
bool psgd__path_in(char path[PATH_LONGEST], const char *folder, const char *name);
bool psgd__is_folder(const char *path);
bool psgd__has_folders(const char *path); /* that are not hidden */

/* Adds every image of the class folders of a folder. A class folder without images is an error. */
psgd_status psgd__image_files_read(image_files *to, const char *folder);

/* Adds the images that lie in the folder itself, as ILSVRC has its validation images, with the classes of the training
 * images. truth (NULL: one of the usual names in the folder or in the one above it) is a text with a line for each
 * image: its class, in the order of their names; or its name and its class. A class is the name of a class folder, or
 * its number from 0 in the order of names; in a file called ..._ground_truth.txt, which is what ILSVRC's development
 * kit has, the kit's number, which the meta.mat next to that file explains. */
psgd_status psgd__image_files_read_flat(image_files *to, const image_files *training, const char *above,
                                        const char *folder, const char *truth);

/* Numbers the classes as other files do, by their names. A class that those do not have is an error. */
psgd_status psgd__image_files_match(image_files *to, const image_files *other);

void psgd__image_files_free(image_files *files);

#endif
