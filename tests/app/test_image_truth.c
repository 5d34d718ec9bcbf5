/* Test images without class folders: where their classes come from. */
#include "app/images.h"

#include <unistd.h>
#include <zlib.h>

#include "data/source.h"

static int make_folder(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "test_image_truth.%d", (int)getpid());
    return mkdir(root, 0777);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void write_text(const char *path, const char *chars)
{
    write_file(path, chars, strlen(chars));
}

static psgd_status open_flat(source *train, source **test)
{
    char name[300];
    snprintf(name, sizeof name, "images:%s", path_to("flat"));
    source_settings settings = {.height = 16, .width = 16, .training = train};
    return psgd__source_open(NULL, name, SPLIT_TEST, &settings, test);
}

/* A flat val/ with the classes by folder name or number, by order or by name of the image. */
static void flat_images_have_their_classes_in_a_file(void **state)
{
    (void)state;
    unsigned char grey[] = {100, 100, 100};
    static const char *const folders[] = {"flat", "flat/train", "flat/train/b", "flat/train/a", "flat/val"};
    for (int i = 0; i < 5; i++) mkdir(path_to("%s", folders[i]), 0777);
    write_jpeg(path_to("flat/train/a/1.jpg"), 20, 20, TJPF_RGB, grey, false);
    write_jpeg(path_to("flat/train/b/1.jpg"), 20, 20, TJPF_RGB, grey, false);
    for (int i = 1; i < 4; i++) write_jpeg(path_to("flat/val/v%d.JPEG", i), 20, 20, TJPF_RGB, grey, false);
    static const char *const good[] = {"b\na\nb\n", "1\n0\n1\n", "v1.JPEG 1\nv2.JPEG 0\nv3.JPEG 1\n",
                                       "ImageId,PredictionString\nv3,b 1 2 3 4\nv1,b 1 1 1 1\nv2,a 5 6 7 8\n"};
    static const char *const bad[][2] = {{"b\na\n", "classes for 2 of the 3"},
                                         {"b\na\nc\n", "line 3"},
                                         {"b\na\n2\n", "line 3"},
                                         {"v1 a\nv1 a\nv2 a\n", "line 2"},
                                         {"b\na\nb\nb\n", "line 4"}};
    char name[300];
    source *train, *test;
    snprintf(name, sizeof name, "images:%s", path_to("flat"));
    source_settings settings = {.height = 16, .width = 16};
    assert_ok(psgd__source_open(NULL, name, SPLIT_TRAIN, &settings, &train));
    assert_fails(open_flat(train, &test), PSGD_ERR_FORMAT, "there is no val.txt");
    for (int k = 0; k < 4; k++) {
        write_text(path_to("flat/val.txt"), good[k]);
        assert_ok(open_flat(train, &test));
        static float x[3 * 16 * 16 * 3], y[3];
        float sum = 0;
        assert_int_equal(test->classes, 2);
        assert_ok(test->read(test, 3, (int64_t[]){0, 1, 2}, x, y));
        for (int j = 0; j < 3; j++) sum += y[j];
        assert_true(sum == 2);
        psgd__source_close(test);
    }
    for (int k = 0; k < 5; k++) {
        write_text(path_to("flat/val.txt"), bad[k][0]);
        assert_fails(open_flat(train, &test), PSGD_ERR_FORMAT, bad[k][1]);
    }
    mkdir(path_to("flat/val/c"), 0777);
    write_jpeg(path_to("flat/val/c/1.jpg"), 20, 20, TJPF_RGB, grey, false);
    assert_fails(open_flat(train, &test), PSGD_ERR_FORMAT, "class 'c' that the training images lack");
    psgd__source_close(train);
    mkdir(path_to("flat/train/d"), 0777);
    assert_fails(psgd__source_open(NULL, name, SPLIT_TRAIN, &settings, &train), PSGD_ERR_FORMAT, "has no .jpg");
}

/* A MATLAB 5 file as the development kit's meta.mat is one, made by hand. */
typedef struct mat {
    unsigned char bytes[4096];
    size_t size;
} mat;

static void put(mat *to, uint32_t type, const void *data, size_t size)
{
    uint32_t tag[2] = {type, (uint32_t)size};
    memcpy(to->bytes + to->size, tag, 8);
    memcpy(to->bytes + to->size + 8, data, size);
    to->size += 8 + (size + 7) / 8 * 8;
}

static void put_array(mat *to, int kind, int32_t count, const char *name, const mat *inside)
{
    mat all = {.size = 0};
    uint32_t flags[2] = {(uint32_t)kind, 0};
    int32_t sizes[2] = {1, count};
    put(&all, 6, flags, sizeof flags);
    put(&all, 5, sizes, sizeof sizes);
    put(&all, 1, name, strlen(name));
    memcpy(all.bytes + all.size, inside->bytes, inside->size);
    all.size += inside->size;
    put(to, 14, all.bytes, all.size);
}

static void put_class(mat *to, double number, const char *name)
{
    mat id = {.size = 0}, wnid = {.size = 0};
    put(&id, 9, &number, 8);
    put_array(to, 6, 1, "", &id);
    put(&wnid, 16, name, strlen(name));
    put_array(to, 4, (int32_t)strlen(name), "", &wnid);
}

/* Numbers 1 and 2 are the folders b and a. */
static mat meta_mat(bool deflated)
{
    mat synsets = {.size = 0}, array = {.size = 0}, file = {.size = 128};
    uint32_t width[2] = {4 << 16 | 5, 16}; /* a small element: its data is in its tag */
    char names[32] = "ILSVRC2012_ID";
    memcpy(names + 16, "WNID", 4);
    memcpy(synsets.bytes, width, 8);
    synsets.size = 8;
    put(&synsets, 1, names, sizeof names);
    put_class(&synsets, 1, "b");
    put_class(&synsets, 2, "a");
    put_array(&array, 2, 2, "synsets", &synsets);
    memcpy(file.bytes + 126, "IM", 2);
    if (deflated) {
        unsigned char packed[2048];
        uLongf size = sizeof packed;
        assert_int_equal(compress(packed, &size, array.bytes, array.size), Z_OK);
        put(&file, 15, packed, size);
        return file;
    }
    memcpy(file.bytes + file.size, array.bytes, array.size);
    file.size += array.size;
    return file;
}

/* The ground truth of the development kit: numbers from 1 that meta.mat explains. */
static void the_development_kit_size_classes_its_own_way(void **state)
{
    (void)state;
    unsigned char grey[] = {100, 100, 100};
    static const char *const folders[] = {"kit", "kit/train", "kit/train/b", "kit/train/a", "kit/val"};
    static float x[3 * 16 * 16 * 3], y[3];
    char name[300];
    source *train, *test;
    for (int i = 0; i < 5; i++) mkdir(path_to("%s", folders[i]), 0777);
    write_jpeg(path_to("kit/train/a/1.jpg"), 20, 20, TJPF_RGB, grey, false);
    write_jpeg(path_to("kit/train/b/1.jpg"), 20, 20, TJPF_RGB, grey, false);
    for (int i = 1; i < 4; i++) write_jpeg(path_to("kit/val/v%d.JPEG", i), 20, 20, TJPF_RGB, grey, false);
    snprintf(name, sizeof name, "images:%s", path_to("kit"));
    source_settings settings = {.height = 16, .width = 16};
    assert_ok(psgd__source_open(NULL, name, SPLIT_TRAIN, &settings, &train));
    settings.training = train;
    write_text(path_to("kit/ILSVRC2012_validation_ground_truth.txt"), "2\n1\n2\n");
    assert_fails(psgd__source_open(NULL, name, SPLIT_TEST, &settings, &test), PSGD_ERR_IO, "meta.mat beside it");
    for (int deflated = 0; deflated < 2; deflated++) {
        mat file = meta_mat(deflated);
        write_file(path_to("kit/meta.mat"), file.bytes, file.size);
        assert_ok(psgd__source_open(NULL, name, SPLIT_TEST, &settings, &test));
        assert_ok(test->read(test, 3, (int64_t[]){0, 1, 2}, x, y));
        assert_true(y[0] == 0 && y[1] == 1 && y[2] == 0);
        psgd__source_close(test);
        for (size_t size = 0; size < file.size; size += 8) {
            write_file(path_to("kit/meta.mat"), file.bytes, size);
            assert_fails(psgd__source_open(NULL, name, SPLIT_TEST, &settings, &test), PSGD_ERR_FORMAT, "meta.mat");
        }
    }
    mat file = meta_mat(false);
    write_file(path_to("kit/meta.mat"), file.bytes, file.size);
    write_text(path_to("kit/ILSVRC2012_validation_ground_truth.txt"), "2\n0\n2\n");
    assert_fails(psgd__source_open(NULL, name, SPLIT_TEST, &settings, &test), PSGD_ERR_FORMAT, "line 2");
    psgd__source_close(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_images_have_their_classes_in_a_file),
        cmocka_unit_test(the_development_kit_size_classes_its_own_way),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
