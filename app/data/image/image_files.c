#include "data/image/image_files.h"
#include "core/memory.h"
#include "data/format/gzip.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

bool psgd__path_in(char path[PATH_LONGEST], const char *folder, const char *name)
{
    return snprintf(path, PATH_LONGEST, "%s/%s", folder, name) < PATH_LONGEST && access(path, F_OK) == 0;
}

bool psgd__is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static int is_jpeg(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static psgd_status add_file(image_files *to, const char *folder, const char *name, int label)
{
    char path[PATH_LONGEST];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_LONGEST) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "the path %s/%s is too long", folder, name);
    }
    bool grown = psgd__grow(to->context, &to->file, to->count + 1, &to->room, sizeof *to->file);
    char *copy = grown ? psgd__strdup(to->context, path) : NULL;
    if (!copy) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of images");
    to->file[to->count++] = (image_file){copy, label};
    return PSGD_OK;
}

static psgd_status name_class(image_files *to, const char *name)
{
    bool grown = psgd__grow(to->context, &to->class_name, to->classes + 1, &to->class_room, sizeof *to->class_name);
    char *copy = grown ? psgd__strdup(to->context, name) : NULL;
    if (!copy) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of classes");
    to->class_name[to->classes++] = copy;
    return PSGD_OK;
}

static psgd_status add_class(image_files *to, const char *folder, const char *name)
{
    char path[PATH_LONGEST];
    struct dirent **names;
    if (!psgd__path_in(path, folder, name) || !psgd__is_folder(path)) return PSGD_OK;
    PSGD_TRY(name_class(to, name));
    int count = scandir(path, &names, is_jpeg, alphasort);
    psgd_status status = count > 0 ? PSGD_OK
                                   : psgd__fail(PSGD_ERR_FORMAT, "the class folder %s has no .jpg or .jpeg", path);
    for (int i = 0; i < count; i++) {
        if (status == PSGD_OK) status = add_file(to, path, names[i]->d_name, (int)to->classes - 1);
        free(names[i]);
    }
    if (count >= 0) free(names);
    return status;
}

bool psgd__has_folders(const char *path)
{
    DIR *folder = opendir(path);
    bool any = false;
    for (struct dirent *entry; folder && !any && (entry = readdir(folder));) {
        char inside[PATH_LONGEST];
        any = is_visible(entry) && psgd__path_in(inside, path, entry->d_name) && psgd__is_folder(inside);
    }
    if (folder) closedir(folder);
    return any;
}

static psgd_status share_classes(image_files *to, const image_files *from)
{
    for (int64_t i = 0; i < from->classes; i++) PSGD_TRY(name_class(to, from->class_name[i]));
    return PSGD_OK;
}

psgd_status psgd__image_files_match(image_files *to, const image_files *other)
{
    int64_t k = 0, at = 0, own = to->classes; /* both lists are in the order of names, and so are the files */
    for (int64_t i = 0; i < own; i++) {
        while (k < other->classes && strcmp(other->class_name[k], to->class_name[i]) < 0) k++;
        if (k == other->classes || strcmp(other->class_name[k], to->class_name[i]) != 0) {
            return psgd__fail(PSGD_ERR_FORMAT, "the test images have a class '%s' that the training images lack",
                              to->class_name[i]);
        }
        for (; at < to->count && to->file[at].label == i; at++) to->file[at].label = (int)k;
    }
    for (int64_t i = 0; i < own; i++) psgd__free(to->context, to->class_name[i]);
    to->classes = 0;
    return share_classes(to, other);
}

psgd_status psgd__image_files_read(image_files *to, const char *folder)
{
    struct dirent **names;
    int count = scandir(folder, &names, is_visible, alphasort);
    if (count < 0) return psgd__fail(PSGD_ERR_IO, "cannot read the folder %s", folder);
    psgd_status status = PSGD_OK;
    for (int i = 0; i < count; i++) {
        if (status == PSGD_OK) status = add_class(to, folder, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    if (status == PSGD_OK && to->classes == 0) {
        status = psgd__fail(PSGD_ERR_FORMAT, "there are no class folders in %s", folder);
    }
    return status;
}

static int class_called(const image_files *files, const char *name)
{
    for (int64_t i = 0; i < files->classes; i++) {
        if (!strcmp(files->class_name[i], name)) return (int)i;
    }
    return -1;
}

/* A class by its name or its number, or -1. */
static int class_of(const image_files *files, const char *word)
{
    char *end;
    long number = strtol(word, &end, 10);
    bool whole = *word && !*end;
    if (files->kit.count > 0 && whole) {
        return number >= 1 && number <= files->kit.count ? class_called(files, files->kit.name[number - 1]) : -1;
    }
    int called = class_called(files, word);
    return called < 0 && whole && number >= 0 && number < files->classes ? (int)number : called;
}

/* The development kit, where truth is its ground truth. */
static psgd_status read_kit(image_files *to, const char *truth)
{
    static const char outcome[] = "_ground_truth.txt";
    char path[PATH_LONGEST];
    size_t length = strlen(truth), tail = sizeof outcome - 1;
    const char *slash = strrchr(truth, '/');
    if (length < tail || strcmp(truth + length - tail, outcome) != 0) return PSGD_OK;
    if (snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash + 1 - truth) : 0, truth, "meta.mat") >=
        PATH_LONGEST) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "the path of %s is too long", truth);
    }
    if (access(path, F_OK) != 0) {
        return psgd__fail(PSGD_ERR_IO,
                          "%s numbers the classes as ILSVRC's development kit does; put the kit's meta.mat beside it",
                          truth);
    }
    return psgd__devkit_read(to->context, path, &to->kit);
}

/* The name of an image with or without its ending. */
static bool names_file(const char *word, const char *name)
{
    size_t length = strlen(word);
    return !strncmp(word, name, length) && (!name[length] || (name[length] == '.' && !strchr(name + length + 1, '.')));
}

/* Where a name stands in the sorted list, or -1. A name without its ending comes right before the one with it. */
static int find_name(const char *word, struct dirent **names, int count)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(names[middle]->d_name, word) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && names_file(word, names[low]->d_name) ? low : -1;
}

/* One line of the ground truth: the image that it is about, and its class; both -1 where it has none of them. */
static void read_line(const image_files *files, char *line, int number, struct dirent **names, int count, int *image,
                      int *label)
{
    static const char *const between = " \t\r,";
    char *rest = NULL, *first = strtok_r(line, between, &rest), *second = first ? strtok_r(NULL, between, &rest) : NULL;
    *image = *label = -1;
    if (!first) return;
    *image = second ? (number < count && names_file(first, names[number]->d_name) ? number
                                                                                  : find_name(first, names, count))
                    : number;
    *label = class_of(files, second ? second : first);
}

static psgd_status read_truth(image_files *to, const char *folder, const char *truth, char *chars,
                              struct dirent **names, int count)
{
    int number = 0, line_number = 0;
    bool *seen = psgd__alloc(to->context, count, sizeof *seen);
    psgd_status status = seen ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of images");
    for (char *rest = NULL, *line = strtok_r(chars, "\n", &rest); status == PSGD_OK && line;
         line = strtok_r(NULL, "\n", &rest)) {
        int image, label;
        line_number++;
        read_line(to, line, number, names, count, &image, &label);
        if (image < 0 && label < 0 && line_number == 1) continue; /* the header of a table */
        if (image < 0 || image >= count || label < 0 || seen[image]) {
            status = psgd__fail(PSGD_ERR_FORMAT,
                                "line %d of %s does not give an image of %s a class; a class is the name of a "
                                "training folder or its number, %s",
                                line_number, truth, folder,
                                to->kit.count > 0 ? "which meta.mat gives a folder" : "from 0 in the order of names");
            break;
        }
        seen[image] = true;
        number++;
        status = add_file(to, folder, names[image]->d_name, label);
    }
    if (status == PSGD_OK && number != count) {
        status = psgd__fail(PSGD_ERR_FORMAT, "%s has classes for %d of the %d images of %s", truth, number, count,
                            folder);
    }
    psgd__free(to->context, seen);
    return status;
}

static psgd_status read_flat(image_files *to, const char *folder, const char *truth)
{
    unsigned char *bytes;
    int64_t size;
    struct dirent **names;
    PSGD_TRY(read_kit(to, truth));
    PSGD_TRY(psgd__file_read(to->context, truth, &bytes, &size));
    int count = scandir(folder, &names, is_jpeg, alphasort);
    psgd_status status = count > 0 ? read_truth(to, folder, truth, (char *)bytes, names, count)
                                   : psgd__fail(PSGD_ERR_FORMAT, "the folder %s has no .jpg or .jpeg", folder);
    for (int i = 0; i < count; i++) free(names[i]);
    if (count >= 0) free(names);
    psgd__free(to->context, bytes);
    return status;
}

psgd_status psgd__image_files_read_flat(image_files *to, const image_files *training, const char *above,
                                        const char *folder, const char *truth)
{
    static const char *const usual[] = {"val.txt",
                                        "LOC_val_solution.csv",
                                        "ILSVRC2012_validation_synset_labels.txt",
                                        "imagenet_2012_validation_synset_labels.txt",
                                        "ILSVRC2012_validation_ground_truth.txt",
                                        "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"};
    char path[PATH_LONGEST];
    for (size_t i = 0; !truth && i < sizeof usual / sizeof usual[0]; i++) {
        if (psgd__path_in(path, above, usual[i]) || psgd__path_in(path, folder, usual[i])) truth = path;
    }
    if (!truth) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "the images of %s are not in class folders, and there is no val.txt with their classes in "
                          "%s; --truth FILE names one",
                          folder, above);
    }
    PSGD_TRY(share_classes(to, training));
    return read_flat(to, folder, truth);
}

void psgd__image_files_free(image_files *files)
{
    for (int64_t i = 0; i < files->count; i++) psgd__free(files->context, files->file[i].path);
    for (int64_t i = 0; i < files->classes; i++) psgd__free(files->context, files->class_name[i]);
    psgd__free(files->context, files->file);
    psgd__free(files->context, files->class_name);
    psgd__devkit_free(files->context, &files->kit);
    *files = (image_files){.context = files->context};
}
