/* The checkpoint of a run: a byte that says of which and how, then edits of a whole one (fuzz_edit). Checksums are
 * repaired, those of the optimizer within too, and the size of the file where the first byte is even. */
#include "fuzz.h"

#include "core/checksum.h"
#include "core/file.h"
#include "core/memory.h"
#include "train/checkpoint.h"

/* magic, bytes, progress, then names and sizes. */
enum { SECTIONS = 6, TABLE = 16 + sizeof(train_progress), NAME = 16, HEAD = TABLE + SECTIONS * (NAME + 8) };

typedef struct kept {
    char *bytes;
    size_t count;
} kept;

static kept train(const char *kind, const char *data, const char *optimizer)
{
    bool lm = !strcmp(kind, "lm");
    const train_setting settings[] = {{"model", kind},
                                      {"data", data},
                                      {"optimizer", optimizer},
                                      {"out", fuzz_folder()},
                                      {"steps", "1"},
                                      {"batch", "2"},
                                      {"seed", "1"},
                                      {lm ? "hidden" : "samples", lm ? "3" : "10"},
                                      {"back", "5"}};
    int count = (int)(sizeof settings / sizeof settings[0]) - !lm; /* the last is of a text alone */
    trainer *run;
    bool stopped;
    unsigned char *bytes;
    int64_t size;
    char path[128];
    FUZZ_ASSERT(psgd__trainer_create(NULL, NULL, count, settings, &run) == PSGD_OK);
    FUZZ_ASSERT(psgd__trainer_run(run, NULL, &stopped) == PSGD_OK);
    psgd__trainer_free(run);
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), CHECKPOINT_FILE);
    FUZZ_ASSERT(psgd__file_read_whole(NULL, path, &bytes, &size) == PSGD_OK);
    kept whole = {fuzz_text(bytes, (size_t)size), (size_t)size};
    psgd__free(NULL, bytes);
    (void)remove(path);
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), METRICS_FILE);
    (void)remove(path);
    return whole;
}

static void repair(char *bytes, size_t count, bool size_too)
{
    int64_t sizes[SECTIONS], sum = HEAD + 8;
    if (count < HEAD + 8) return;
    for (int i = 0; i < SECTIONS; i++) {
        memcpy(&sizes[i], bytes + TABLE + i * (NAME + 8) + NAME, 8);
        if (sizes[i] < 0 || sizes[i] > (int64_t)count) return;
        sum += sizes[i];
    }
    if (sum != (int64_t)count) return;
    if (size_too) memcpy(bytes + 8, &sum, sizeof sum);
    size_t at = HEAD;
    for (int i = 0; i < SECTIONS; at += (size_t)sizes[i++]) {
        if (i == 3) fuzz_repair_optimizer(bytes + at, (size_t)sizes[i]);
    }
    uint64_t own = psgd__checksum_add(CHECKSUM_START, bytes, HEAD);
    at = HEAD;
    for (int i = 0; i < SECTIONS; at += (size_t)sizes[i++]) own = psgd__checksum_add(own, bytes + at, sizes[i]);
    memcpy(bytes + at, &own, sizeof own);
}

static void say(void *data, const char *word, bool joined)
{
    (void)data, (void)joined;
    FUZZ_ASSERT(word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static kept runs[2];
    if (size < 1) return 0;
    if (!runs[0].count) {
        runs[0] = train("lm", "markov:8,2,200,1", "psgd-fisher");
        runs[1] = train("logistic", "xor", "adam");
    }
    int which = data[0] >> 1 & 1;
    size_t count = runs[which].count;
    char *bytes = fuzz_edit(data + 1, size - 1, runs[which].bytes, &count);
    repair(bytes, count, !(data[0] & 1));
    fuzz_write(CHECKPOINT_FILE, (const uint8_t *)bytes, count);
    free(bytes);
    trainer *run;
    (void)psgd__generate(fuzz_context(false), fuzz_folder(), 3, 1, 1, say, NULL);
    if (psgd__trainer_resume(fuzz_context(false), NULL, fuzz_folder(), 0, NULL, &run) == PSGD_OK) {
        FUZZ_ASSERT(run->now.step >= 0 && run->now.seconds >= 0);
        FUZZ_ASSERT(fuzz_finite(run->config.dtype, run->parameters, run->theta));
        psgd__trainer_free(run);
    }
    return 0;
}
