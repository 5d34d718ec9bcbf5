/* Small promises of the data formats, of the order of samples and of the queue of images. */
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "data/format/npy.h"
#include "data/format/safetensors.h"
#include "data/image/image_queue.h"
#include "data/source.h"
#include "train/checkpoint.h"

static char folder[] = "/tmp/psgd_formats_XXXXXX", path[64];

static void put(const char *words)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(words, file);
    fclose(file);
}

static psgd_status open_table(source **opened)
{
    char name[80];
    snprintf(name, sizeof name, "csv:%s", path);
    return psgd__source_open(NULL, name, SPLIT_TRAIN, &(source_settings){0}, opened);
}

static void rows_of_a_table_are_of_one_length(void **state)
{
    (void)state;
    source *table;
    float x[2], y;
    put("1,2,0\n3,4,5,1\n");
    assert_fails(open_table(&table), PSGD_ERR_FORMAT, "line 2 has 4 values; expected 3");
    put("1,2,0\n3,1\n");
    assert_fails(open_table(&table), PSGD_ERR_FORMAT, "line 2 has 2 values; expected 3");
    put("1,2,0\n3,4,1\n");
    assert_ok(open_table(&table));
    assert_int_equal(table->count, 2);
    assert_ok(table->read(table, 1, &(int64_t){1}, x, &y));
    assert_true(x[0] == 3 && x[1] == 4 && y == 1);
    psgd__source_close(table);
}

static void a_heading_has_no_number(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        int64_t rows;
    } cases[] = {{"a,b,label\n1,2,0\n", 1},
                 {"\"a 1\",,label\n1,2,0\n", 1},
                 {"\xEF\xBB\xBF"
                  "1,2,0\n3,4,1\n",
                  2},
                 {" 1;2.5 ; 0\n\n3;4;1;\n", 2},
                 {"x y label\n1\t2  0\r\n", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        source *table;
        float x[2], y;
        put(cases[i].words);
        assert_ok(open_table(&table));
        assert_int_equal(table->count, cases[i].rows);
        assert_int_equal(table->features, 2);
        assert_ok(table->read(table, 1, &(int64_t){0}, x, &y));
        assert_true(x[0] == 1 || x[0] == 3);
        psgd__source_close(table);
    }
}

static void weights_must_lie_in_their_file(void **state)
{
    (void)state;
    double a[2] = {1, 2}, back[2] = {0};
    assert_ok(psgd__safetensors_write(NULL, path, PSGD_F64, 1, &(named_matrix){"a", 1, 2, a}));
    assert_ok(psgd__safetensors_read(NULL, path, PSGD_F64, 1, &(named_matrix){"a", 1, 2, back}));
    assert_true(back[0] == 1 && back[1] == 2);
    FILE *file = fopen(path, "r+");
    fseek(file, 0, SEEK_END);
    assert_int_equal(ftruncate(fileno(file), ftell(file) - 1), 0);
    fclose(file);
    back[0] = 7;
    assert_fails(psgd__safetensors_read(NULL, path, PSGD_F64, 1, &(named_matrix){"a", 1, 2, back}), PSGD_ERR_FORMAT,
                 "outside the file");
    assert_true(back[0] == 7);
}

static void pipes_are_not_waited_for(void **state)
{
    (void)state;
    char log[80];
    npy_file npy;
    metrics_run *run;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(psgd__npy_open(NULL, path, &npy), PSGD_ERR_IO, "a pipe");
    unlink(path);
    snprintf(log, sizeof log, "%s/%s", folder, METRICS_FILE);
    assert_int_equal(mkfifo(log, 0600), 0);
    assert_fails(psgd__metrics_read(NULL, folder, &run), PSGD_ERR_IO, "not a file");
    unlink(log);
}

enum { SAMPLES = 200, STEPS = 20 };

static void an_order_is_a_permutation_of_seed_and_epoch(void **state)
{
    (void)state;
    int64_t first[SAMPLES], again[SAMPLES], next[SAMPLES], other[SAMPLES], seen[SAMPLES] = {0};
    psgd__source_shuffle(1, 0, SAMPLES, first);
    psgd__source_shuffle(1, 0, SAMPLES, again);
    psgd__source_shuffle(1, 1, SAMPLES, next);
    psgd__source_shuffle(2, 0, SAMPLES, other);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, next, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    for (int i = 0; i < SAMPLES; i++) seen[next[i]]++;
    for (int i = 0; i < SAMPLES; i++) assert_int_equal(seen[i], 1);
}

/* Where nothing is learned the losses of two epochs are those of the same samples, in another order. */
static double losses[2 * STEPS];

static void keep_loss(void *data, int64_t done, int64_t total, double loss)
{
    (void)data, (void)total;
    if (done >= 1 && done <= 2 * STEPS) losses[done - 1] = loss;
}

static void every_epoch_has_an_order_of_its_own(void **state)
{
    (void)state;
    const train_setting settings[] = {{"model", "logistic"}, {"data", "digits"}, {"optimizer", "sgd"}, {"lr", "0"},
                                      {"samples", "20"},     {"batch", "1"},     {"epochs", "2"}};
    trainer *run;
    bool stopped;
    double sums[2] = {0};
    int same = 0;
    assert_ok(psgd__trainer_create(NULL, NULL, (int)(sizeof settings / sizeof settings[0]), settings, &run));
    assert_ok(psgd__trainer_run(run, &(train_watch){.step = keep_loss}, &stopped));
    psgd__trainer_free(run);
    for (int i = 0; i < STEPS; i++) {
        sums[0] += losses[i];
        sums[1] += losses[STEPS + i];
        same += losses[i] == losses[STEPS + i];
    }
    assert_true(sums[0] > 0 && fabs(sums[0] - sums[1]) < 1e-5 * sums[0]);
    assert_true(same < STEPS / 2);
}

/* Work that takes its time, so that a batch which does not wait for it is seen. */
static psgd_status open_worker(void *data, void **decoder)
{
    *decoder = data;
    return PSGD_OK;
}

static void close_worker(void *decoder)
{
    (void)decoder;
}

static psgd_status make_slowly(void *data, void *decoder, int64_t index, bool announced, uint64_t seed, uint64_t epoch,
                               unsigned char *pixels, float *label, image_place *place)
{
    (void)data, (void)decoder, (void)announced, (void)seed, (void)epoch;
    usleep(2000);
    pixels[0] = (unsigned char)(index + 1);
    *label = (float)index;
    *place = (image_place){index, 0, false};
    return PSGD_OK;
}

static void a_batch_waits_for_everything_that_was_begun(void **state)
{
    (void)state;
    enum { N = 12 };
    image_queue *queue;
    image_work work = {.open = open_worker, .close = close_worker, .make = make_slowly, .data = &queue};
    assert_ok(psgd__image_queue_create(NULL, &work, 3, 1, &queue));
    for (int round = 0; round < 6; round++) {
        int64_t index[N], others[N];
        image_batch batch;
        for (int i = 0; i < N; i++) {
            index[i] = (7 * i + round) % 100;
            others[i] = (3 * i + round) % 100;
        }
        psgd__image_queue_announce(queue, N, round % 2 ? others : index, 1, 0);
        usleep(1000);
        assert_ok(psgd__image_queue_take(queue, N, index, &batch)); /* announced, or what was announced is given up */
        for (int i = 0; i < N; i++) {
            assert_int_equal(batch.pixels[i], index[i] + 1);
            assert_true(batch.label[i] == (float)index[i] && batch.place[i].top == index[i]);
        }
    }
    psgd__image_queue_free(queue);
}

static void a_checkpoint_with_one_wrong_bit_is_refused(void **state)
{
    (void)state;
    const train_setting settings[] = {{"model", "logistic"}, {"data", "xor"}, {"optimizer", "adam"}, {"steps", "1"},
                                      {"samples", "12"},     {"batch", "4"},  {"out", folder}};
    static const char *const files[] = {CHECKPOINT_FILE, METRICS_FILE, WEIGHTS_FILE};
    trainer *run;
    checkpoint file;
    bool stopped;
    char name[80];
    snprintf(name, sizeof name, "%s/%s", folder, METRICS_FILE);
    FILE *stream = fopen(name, "w");
    fputs("{\"kind\":\"hea", stream); /* left by a kill in the first record: a run may begin here */
    fclose(stream);
    assert_ok(psgd__trainer_create(NULL, NULL, (int)(sizeof settings / sizeof settings[0]), settings, &run));
    assert_ok(psgd__trainer_run(run, NULL, &stopped));
    psgd__trainer_free(run);
    snprintf(name, sizeof name, "%s/%s", folder, CHECKPOINT_FILE);
    stream = fopen(name, "r+");
    fseek(stream, 0, SEEK_END);
    for (long size = ftell(stream), at = 244; at < size; at += 61) {
        fseek(stream, at, SEEK_SET);
        int byte = getc(stream);
        fseek(stream, at, SEEK_SET);
        putc(byte ^ 4, stream);
        fflush(stream);
        assert_fails(psgd__checkpoint_open(NULL, folder, &file), PSGD_ERR_FORMAT, "checksum");
        psgd__checkpoint_close(&file);
        fseek(stream, at, SEEK_SET);
        putc(byte, stream);
        fflush(stream);
    }
    fclose(stream);
    assert_ok(psgd__checkpoint_open(NULL, folder, &file));
    psgd__checkpoint_close(&file);
    /* By another name of the folder, as after a move: it goes on there, wherever it began. */
    snprintf(name, sizeof name, "%s/../%s", folder, strrchr(folder, '/') + 1);
    assert_ok(psgd__trainer_resume(NULL, NULL, name, 0, NULL, &run));
    assert_string_equal(psgd__trainer_state(run).folder, name);
    psgd__trainer_free(run);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/%s", folder, files[i]);
        unlink(name);
    }
}

static int enter(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_table_are_of_one_length),
        cmocka_unit_test(a_heading_has_no_number),
        cmocka_unit_test(pipes_are_not_waited_for),
        cmocka_unit_test(weights_must_lie_in_their_file),
        cmocka_unit_test(an_order_is_a_permutation_of_seed_and_epoch),
        cmocka_unit_test(every_epoch_has_an_order_of_its_own),
        cmocka_unit_test(a_checkpoint_with_one_wrong_bit_is_refused),
        cmocka_unit_test(a_batch_waits_for_everything_that_was_begun),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
