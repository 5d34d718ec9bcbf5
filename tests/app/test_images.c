/* Images in class folders: what is decoded, what order and crops depend on, what a broken file does. The JPEGs are
 * made here. */
#include "app/images.h"

#include <errno.h>
#include <unistd.h>

#include "core/memory.h"
#include "data/image/jpeg.h"
#include "data/source.h"

enum { CLASSES = 3, EACH = 6, SIDE = 40 };

static unsigned char level(int class, int i)
{
    return (unsigned char)(20 + 70 * class + 10 * i);
}

static int make_folders(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "test_images.%d", (int)getpid());
    mkdir(root, 0777);
    static const char *const splits[] = {"train", "val"};
    for (int s = 0; s < 2; s++) {
        mkdir(path_to("%s", splits[s]), 0777);
        for (int c = 0; c < CLASSES; c++) {
            mkdir(path_to("%s/n%d", splits[s], c), 0777);
            for (int i = 0; i < (s ? 2 : EACH); i++) {
                unsigned char grey = level(c, i), colour[] = {grey, grey, grey};
                write_jpeg(path_to("%s/n%d/%d.JPEG", splits[s], c, i), SIDE, SIDE + 8 * i, TJPF_RGB, colour, false);
            }
        }
    }
    return 0;
}

static int remove_folders(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static source *open_split(source_split split, source_settings settings)
{
    source *opened;
    char name[300];
    snprintf(name, sizeof name, "images:%s", root);
    settings.height = settings.height ? settings.height : 16;
    settings.width = settings.width ? settings.width : 16;
    assert_ok(psgd__source_open(NULL, name, split, &settings, &opened));
    return opened;
}

/* Pixels lie within 3 of what was written: JPEG rounds. */
static void assert_pixel(double pixel, double wanted)
{
    if (!(fabs(pixel - wanted) <= 3)) print_error("%g is not %g\n", pixel, wanted);
    assert_true(fabs(pixel - wanted) <= 3);
}

static void classes_and_pixels(void **state)
{
    (void)state;
    source *s = open_split(SPLIT_TRAIN, (source_settings){0});
    assert_int_equal(s->classes, CLASSES);
    assert_int_equal(s->count, CLASSES * EACH);
    int64_t index[CLASSES * EACH];
    static float x[3 * 16 * 16 * CLASSES * EACH], y[CLASSES * EACH];
    bool seen[256] = {false};
    for (int i = 0; i < CLASSES * EACH; i++) index[i] = i;
    assert_ok(s->read(s, CLASSES * EACH, index, x, y));
    for (int j = 0; j < CLASSES * EACH; j++) {
        double pixel = 255 * (double)x[100 * CLASSES * EACH + j];
        int class = (int)y[j], i = (int)((pixel - 20 - 70 * class) / 10 + 0.5);
        assert_pixel(pixel, level(class, i));
        seen[level(class, i)] = true;
    }
    for (int c = 0; c < CLASSES; c++) {
        for (int i = 0; i < EACH; i++) assert_true(seen[level(c, i)]);
    }
    psgd__source_close(s);
}

/* The mean of the training split, also for the test split. */
static void the_mean_is_subtracted(void **state)
{
    (void)state;
    double mean = 0;
    for (int c = 0; c < CLASSES; c++) {
        for (int i = 0; i < EACH; i++) mean += level(c, i) / (double)(CLASSES * EACH);
    }
    source_settings settings = {.subtract_mean = true, .resize = 20};
    source *train = open_split(SPLIT_TRAIN, settings);
    settings.training = train;
    source *test = open_split(SPLIT_TEST, settings);
    assert_int_equal(test->count, 2 * CLASSES);
    float x[3 * 16 * 16 * 2], y[2];
    assert_ok(test->read(test, 2, (int64_t[]){3, 0}, x, y));
    for (int j = 0; j < 2; j++) {
        bool near = false;
        for (int i = 0; i < 2; i++) near = near || fabs((double)x[j] + mean - level((int)y[j], i)) < 3;
        assert_true(near);
    }
    psgd__source_close(test);
    psgd__source_close(train);
}

static void read_colour(const char *path, double rgb[3])
{
    jpeg_decoder *decoder;
    unsigned char pixels[8 * 8 * 3];
    assert_ok(psgd__jpeg_open(NULL, &decoder));
    assert_ok(psgd__jpeg_read(decoder, path, 8, 8, pixels));
    for (int c = 0; c < 3; c++) rgb[c] = pixels[3 * 27 + c];
    psgd__jpeg_close(decoder);
}

/* libturbojpeg marks CMYK as Adobe does: inverted inks, so that light is ink times black. Without the marker 255 is
 * full ink. */
static void grey_and_cmyk_are_read(void **state)
{
    (void)state;
    double rgb[3];
    write_jpeg(path_to("grey.jpg"), 30, 50, TJPF_GRAY, (unsigned char[]){77}, false);
    read_colour(path_to("grey.jpg"), rgb);
    for (int c = 0; c < 3; c++) assert_pixel(rgb[c], 77);
    write_jpeg(path_to("inks.jpg"), 33, 21, TJPF_CMYK, (unsigned char[]){200, 100, 50, 204}, false);
    read_colour(path_to("inks.jpg"), rgb);
    assert_pixel(rgb[0], 200 * 0.8);
    assert_pixel(rgb[1], 100 * 0.8);
    assert_pixel(rgb[2], 50 * 0.8);
    write_jpeg(path_to("wide.jpg"), 300, 100, TJPF_RGB, NULL, true);
    read_colour(path_to("wide.jpg"), rgb); /* the centre, 100 x 100, is the green stripe */
    assert_pixel(rgb[0], 5);
    assert_pixel(rgb[1], 250);
    assert_pixel(rgb[2], 5);
}

static void assert_unreadable(const char *name, const void *bytes, size_t count, const char *words)
{
    jpeg_decoder *decoder;
    unsigned char pixels[8 * 8 * 3];
    write_file(path_to("%s", name), bytes, count);
    assert_ok(psgd__jpeg_open(NULL, &decoder));
    assert_fails(psgd__jpeg_read(decoder, path_to("%s", name), 8, 8, pixels), PSGD_ERR_FORMAT, words);
    psgd__jpeg_close(decoder);
}

static void what_is_no_jpeg_is_refused(void **state)
{
    (void)state;
    unsigned char whole[20000];
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
    FILE *file = fopen(path_to("train/n0/0.JPEG"), "rb");
    assert_non_null(file);
    size_t count = fread(whole, 1, sizeof whole, file);
    fclose(file);
    assert_unreadable("empty.jpg", whole, 0, "empty.jpg");
    assert_unreadable("png.JPEG", png, sizeof png, "not a JPEG");
    assert_unreadable("head.jpg", whole, 40, "head.jpg");
    assert_unreadable("cut.jpg", whole, count - count / 4, "cut.jpg");
}

/* In the middle of an epoch: the next image in the order of names takes the place, once for all threads. */
static void broken_images_are_passed_over(void **state)
{
    (void)state;
    mkdir(path_to("broken"), 0777);
    mkdir(path_to("broken/a"), 0777);
    unsigned char grey[] = {100, 100, 100};
    for (int i = 0; i < 6; i++) write_jpeg(path_to("broken/a/%d.jpg", i), 20, 20, TJPF_RGB, grey, false);
    write_file(path_to("broken/a/2.jpg"), "nothing", 7);
    write_file(path_to("broken/a/3.jpg"), "nothing", 7);
    char name[300];
    snprintf(name, sizeof name, "images:%s", path_to("broken"));
    for (int threads = 1; threads < 4; threads += 2) {
        source *s;
        source_settings settings = {.height = 16, .width = 16, .threads = threads, .holdout = 0};
        assert_ok(psgd__source_open(NULL, name, SPLIT_TRAIN, &settings, &s));
        int64_t index[6] = {0, 1, 2, 3, 4, 5};
        static float x[3 * 16 * 16 * 6], y[6];
        for (int epoch = 0; epoch < 2; epoch++) {
            s->announce(s, 6, index, 1, (uint64_t)epoch);
            assert_ok(s->read(s, 6, index, x, y));
            for (int j = 0; j < 6; j++) assert_pixel(255 * (double)x[j], 100);
        }
        assert_int_equal(s->passed_over, 2);
        assert_non_null(strstr(s->first_bad, ".jpg"));
        psgd__source_close(s);
    }
    for (int i = 0; i < 6; i++) write_file(path_to("broken/a/%d.jpg", i), "nothing", 7);
    source *s;
    source_settings settings = {.height = 16, .width = 16};
    assert_ok(psgd__source_open(NULL, name, SPLIT_TRAIN, &settings, &s));
    float x[3 * 16 * 16], y[1];
    assert_fails(s->read(s, 1, (int64_t[]){0}, x, y), PSGD_ERR_FORMAT, "too many images in a row");
    psgd__source_close(s);
    settings.subtract_mean = true;
    assert_fails(psgd__source_open(NULL, name, SPLIT_TRAIN, &settings, &s), PSGD_ERR_FORMAT, "none of the images");
}

enum { SIZE = 3 * 16 * 16 * 8 };

static void read_announced(int64_t threads, bool crop, uint64_t seed, uint64_t epoch, float *x)
{
    source_settings settings = {.resize = 24, .random_crop = crop, .mirror = crop, .threads = threads};
    source *s = open_split(SPLIT_TRAIN, settings);
    int64_t index[] = {3, 17, 0, 4, 9, 11, 2, 8}, other[] = {1, 2, 3};
    float y[8];
    s->announce(s, 3, other, seed, epoch); /* something that is never read */
    s->announce(s, 8, index, seed, epoch);
    assert_ok(s->read(s, 8, index, x, y));
    psgd__source_close(s);
}

/* The same numbers whatever the threads; other crops in another epoch and with another seed. */
static void crops_are_a_function_of_seed_and_epoch(void **state)
{
    (void)state;
    static float a[SIZE], b[SIZE];
    for (int c = 0; c < CLASSES; c++) {
        for (int i = 0; i < EACH; i++) {
            write_jpeg(path_to("train/n%d/%d.JPEG", c, i), SIDE, SIDE, TJPF_RGB, NULL, true);
        }
    }
    read_announced(1, true, 5, 2, a);
    read_announced(3, true, 5, 2, b);
    assert_memory_equal(a, b, sizeof a);
    read_announced(1, true, 5, 3, b);
    assert_true(memcmp(a, b, sizeof a) != 0);
    read_announced(1, true, 6, 2, b);
    assert_true(memcmp(a, b, sizeof a) != 0);
    read_announced(1, false, 5, 2, a);
    read_announced(2, false, 6, 3, b);
    assert_memory_equal(a, b, sizeof a);
    make_folders(state);
}

static void a_cache_gives_the_same_images(void **state)
{
    (void)state;
    static float a[SIZE], b[SIZE];
    float y[8], z[8];
    int64_t index[] = {3, 17, 0, 4, 9, 11, 2, 8};
    source_settings settings = {.resize = 20};
    source *s = open_split(SPLIT_TRAIN, settings);
    assert_ok(s->read(s, 8, index, a, y));
    psgd__source_close(s);
    settings.cache = path_to("cache");
    for (int k = 0; k < 2; k++) { /* made, then found */
        s = open_split(SPLIT_TRAIN, settings);
        assert_ok(s->read(s, 8, index, b, z));
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(y, z, sizeof y);
        psgd__source_close(s);
    }
    FILE *file = fopen(path_to("cache.train"), "r+b"); /* one byte of one image: it is skipped */
    assert_non_null(file);
    fseek(file, 2000, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, 2000, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
    s = open_split(SPLIT_TRAIN, settings);
    int64_t all[CLASSES * EACH];
    static float every[3 * 16 * 16 * CLASSES * EACH], labels[CLASSES * EACH];
    for (int i = 0; i < CLASSES * EACH; i++) all[i] = i;
    assert_ok(s->read(s, CLASSES * EACH, all, every, labels));
    assert_int_equal(s->passed_over, 1);
    assert_non_null(strstr(s->first_bad, "checksum"));
    psgd__source_close(s);
    char name[300];
    snprintf(name, sizeof name, "images:%s", root);
    settings.height = settings.width = 16;
    settings.resize = 21;
    assert_fails(psgd__source_open(NULL, name, SPLIT_TRAIN, &settings, &s), PSGD_ERR_FORMAT, "is not the cache of");
}

/* A class that the test folder lacks leaves the numbers of the others as they are in training. */
static void classes_are_matched_by_name(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r %s/val/n1", root);
    assert_int_equal(system(command), 0);
    source *train = open_split(SPLIT_TRAIN, (source_settings){0});
    source *test = open_split(SPLIT_TEST, (source_settings){.training = train});
    float x[3 * 16 * 16 * 4], y[4];
    assert_int_equal(test->classes, CLASSES);
    assert_ok(test->read(test, 4, (int64_t[]){0, 1, 2, 3}, x, y));
    for (int j = 0; j < 4; j++) assert_true(y[j] == 0 || y[j] == 2);
    psgd__source_close(test);
    psgd__source_close(train);
}

static void too_little_memory_is_said(void **state)
{
    (void)state;
    assert_ok(psgd__memory_check(1e6, "this run", "a smaller batch needs less"));
    assert_fails(psgd__memory_check(1e18, "this run", "a smaller batch needs less"), PSGD_ERR_NO_MEMORY,
                 "needs about 1000000000.00 GB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_and_pixels),
        cmocka_unit_test(the_mean_is_subtracted),
        cmocka_unit_test(grey_and_cmyk_are_read),
        cmocka_unit_test(what_is_no_jpeg_is_refused),
        cmocka_unit_test(broken_images_are_passed_over),
        cmocka_unit_test(crops_are_a_function_of_seed_and_epoch),
        cmocka_unit_test(a_cache_gives_the_same_images),
        cmocka_unit_test(classes_are_matched_by_name),
        cmocka_unit_test(too_little_memory_is_said),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
