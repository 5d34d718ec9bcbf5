/* Feeds a harness the files and folders that are named, without libFuzzer: any compiler will do. */
#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

static int fed;

static void feed_file(const char *path)
{
    struct stat about;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &about) != 0) exit(2);
    size_t size = (size_t)about.st_size;
    /* Of exactly that length: a sanitizer sees the first byte too many. */
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, file) != size) exit(2);
    fclose(file);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    fed++;
}

static void feed(const char *path)
{
    char inside[4096];
    DIR *folder = opendir(path);
    if (!folder) {
        feed_file(path);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (*entry->d_name == '.') continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        feed_file(inside);
    }
    closedir(folder);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) feed(argv[i]);
    printf("%d inputs\n", fed);
    return fed == 0;
}
